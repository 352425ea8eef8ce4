"""keff: know how many reasoning paths are worth paying for."""
