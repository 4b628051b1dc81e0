// Measures llama.cpp through node-llama-cpp, which npm has installed in the current folder:
// node llama.mjs FILE PROMPT TOKENS THREADS prints a line of JSON.
import {pathToFileURL} from "node:url";

const library = pathToFileURL(process.cwd() + "/node_modules/node-llama-cpp/dist/index.js");
const {getLlama, LlamaLogLevel} = await import(library);
const [file, prompt, tokens, threads] = [process.argv[2], ...process.argv.slice(3).map(Number)];

const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: threads});
const model = await llama.loadModel({modelPath: file, gpuLayers: 0});
const context = await model.createContext({contextSize: prompt + tokens + 64, batchSize: 512, threads});
const sequence = context.getSequence();

let state = 1;
const token = () => (state = (state * 1103515245 + 12345) & 0x7fffffff) % 100000;
const next = t => [t, {generateNext: {token: true, options: {temperature: 0}}}];

// seconds evaluates tokens: of a prompt together, or one after the other.
async function seconds(count, together) {
	const begin = performance.now();
	if (together) {
		const all = Array.from({length: count}, token);
		await sequence.controlledEvaluate([...all.slice(0, -1), next(all.at(-1))]);
	} else {
		for (let i = 0; i < count; i++) {
			await sequence.controlledEvaluate([next(token())]);
		}
	}
	return (performance.now() - begin) / 1000;
}

await seconds(16, true);
await seconds(2, false);
await sequence.clearHistory();
const rates = {prompt_tps: prompt / await seconds(prompt, true), generation_tps: tokens / await seconds(tokens, false)};
console.log(JSON.stringify(rates));
process.exit(0);
