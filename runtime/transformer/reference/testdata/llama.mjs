// Writes llama.json: what llama.cpp answers of the models of reference_test.go, in F32 throughout.
//
//     npm install node-llama-cpp@3.21.1
//     go test ./runtime/transformer/reference -run TestLlama -models FOLDER
//     node llama.mjs FOLDER > llama.json
//
// It has, of each model, the logarithms of the probabilities of every STEPth token after the first 1, 7, 40 and 70
// tokens of a prompt, which llama.cpp evaluates in one batch. llama.cpp cannot run models with only one kind of layers.

import fs from "node:fs";
import path from "node:path";
import {getLlama, LlamaLogLevel} from "node-llama-cpp";

const STEP = 20;
const ends = [1, 7, 40, 70];
const prompt = Array.from({length: ends.at(-1)}, (_, i) => (37 * i + 11) % 256);
const allTokens = {temperature: 1, topK: 0, topP: 1, minP: 0};

const folder = process.argv[2];
const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error});
const models = {};
for (const file of fs.readdirSync(folder).filter(name => name.endsWith(".gguf")).sort()) {
	const model = await llama.loadModel({modelPath: path.join(folder, file), gpuLayers: 0});
	const context = await model.createContext({
		contextSize: 128, batchSize: 128, flashAttention: false,
		experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32",
	});
	const asked = prompt.map((token, i) => ends.includes(i + 1)
		? [token, {generateNext: {probabilities: true, options: allTokens}}] : token);
	const answers = await context.getSequence().controlledEvaluate(asked);
	models[path.basename(file, ".gguf")] = ends.map(end => [...answers[end - 1].next.probabilities]
		.filter(([token]) => token % STEP === 0).sort(([a], [b]) => a - b)
		.map(([, p]) => Number(Math.log(p).toFixed(6))));
	await context.dispose();
	await model.dispose();
}
const lines = Object.entries(models).map(([name, rows]) => `${JSON.stringify(name)}: ${JSON.stringify(rows)}`);
console.log(`{"step": ${STEP}, "ends": ${JSON.stringify(ends)}, "prompt": ${JSON.stringify(prompt)}, "models": {
${lines.join(",\n")}
}}`);
process.exit(0);
