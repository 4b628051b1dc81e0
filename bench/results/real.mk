# Trains the judge of the real pair, records its times, and asks its test questions:
# make -f bench/results/real.mk OUT=… MODELS=…
# The training questions are those of the splits of bench/task, and bench/task/everyday-training.jsonl. It takes many
# hours on two cores; a stopped step goes on where it was.
P = $(OUT)/pilotfish-bench
PAIR = -m $(MODELS)/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf --large $(MODELS)/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf

all: $(foreach t,csqa arc gsm8k mbpp humaneval,$(OUT)/test-$t.jsonl) $(OUT)/real-times.recording

# A file of traces is complete when .done is beside it.
JUDGED = $(P) router collect $(PAIR) --reference judged
SETS = csqa arc gsm8k mbpp everyday
tokens-csqa = 256
tokens-arc = 256
tokens-gsm8k = 640
tokens-mbpp = 320 --run-code
file-mbpp = mbpp
$(OUT)/judged-%.done:
	$(JUDGED) --task $* --split training --data "$$($(P) eval fetch $(or $(file-$*),$*-train))" -n $(tokens-$*) -o $(OUT)/judged-$*
	touch $@
$(OUT)/judged-everyday.done: bench/task/everyday-training.jsonl
	$(JUDGED) --data $< -n 64 -o $(OUT)/judged-everyday
	touch $@
$(OUT)/judge.gguf: $(SETS:%=$(OUT)/judged-%.done)
	$(P) router train $(SETS:%=$(OUT)/judged-%) -o $@

# The answers to test questions behind the tables: of both models alone, and with the judge.
asking-mbpp = --run-code
asking-humaneval = --run-code
$(OUT)/test-%.jsonl: $(OUT)/judge.gguf
	$(P) eval $* --split test --data "$$($(P) eval fetch $*)" --questions 400 $(PAIR) $(asking-$*) \
		--policy never,judge --verify off,0 --budget 0.05 --router $< -o $@.new
	mv $@.new $@

# A device with forward passes of 1/60 s, and 8% of that for each further token, like two otherwise idle cores; and a
# large model at least as slow as on those. The answers of all modes, one at a time, to be replayed over other links.
GSM8K = s/^\{"question": "(.*)", "answer": ".*\#\#\#\# ([^"]*)"\}$$/{"question": "Question: \1\\n$(ASKED)", \
	"answer": "\2", "grader": "number"}/
ASKED = Solve it step by step. Then end with \\"The answer is N.\\", where N is a number.
$(OUT)/real-times.recording: $(OUT)/judge.gguf
	head -n 20 "$$($(P) eval fetch gsm8k)" | sed -E '$(GSM8K)' >$(OUT)/times.jsonl
	$(P) routing $(PAIR) --workload $(OUT)/times.jsonl -n 640 --router $< --parallel 1 \
		--modes local,cloud,judged:0.9 --edge-tps 60 --edge-row-cost 0.08 --cloud-ms 40 --deadline off --record $@

.DELETE_ON_ERROR:
.SECONDARY:
