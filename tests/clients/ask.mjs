// Ask a gateway by the Vercel AI SDK: `node ask.mjs URL [MODEL]` prints what the client got as JSON, as ask.py does.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, streamObject, streamText, tool } from "ai";
import { z } from "zod";

const [url, name] = process.argv.slice(2);
const provider = createOpenAICompatible({ name: "keff", baseURL: url, apiKey: "none", supportsStructuredOutputs: true });
const model = provider(name ?? "stub");
const prompt = "How many is 6 times 7?";
const ask = (more, tokens) => ({ model, prompt, maxRetries: 0, maxOutputTokens: name ? tokens : undefined, ...more });
const solved = z.object({ reasoning: name ? z.string().max(60) : z.string(), total: z.number().int() });

const reply = await generateText(ask({}, 16));
const parts = [];
for await (const part of streamText(ask({}, 16)).textStream) parts.push(part);
const got = { text: reply.text, stream: parts.join(""), tokens: reply.usage.outputTokens };
got.reasoned = { object: (await generateObject(ask({ schema: solved }, 96))).object };
if (!name) {
  const streamed = streamObject(ask({ schema: solved }));
  for await (const part of streamed.partialObjectStream) got.reasoned.streamed = part;
  const report = tool({ description: "x", inputSchema: z.object({ total: z.number().int() }) });
  got.tool = (await generateText(ask({ tools: { report } }))).toolCalls[0].input;
}
console.log(JSON.stringify(got));
