# Trains the judge of the real pair and the routers of its choice tasks, records its times, and asks its test questions:
# make -f bench/results/real.mk OUT=… MODELS=…
# The training questions are those of the splits of bench/task, and bench/task/everyday-training.jsonl. It takes many
# hours on two cores; a stopped step goes on where it was.
P = $(OUT)/pilotfish
PAIR = -m $(MODELS)/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf --large $(MODELS)/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf

comma = ,

all: $(foreach t,csqa arc gsm8k mbpp humaneval,$(OUT)/test-$t.jsonl) $(OUT)/times.recording

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

# task NAME, lines of the fetched training split for the small model's own answers, for answers routed by a first router,
# and for the certificate. Routers are trained with the effects of single questions to the large model.
TRACES = $(P) router collect --label disagreement,consequence -n 96 $(PAIR)
TRAIN = $(P) router train --label consequence --hidden 16
define task
$(OUT)/$1-%.jsonl:
	sed -n "$$(subst -,$$(comma),$$(lines-$1-$$*))p" "$$$$($(P) eval fetch $1-train)" >$$@.new
	mv $$@.new $$@
lines-$1-own = $2
lines-$1-routed = $3
lines-$1-certificate = $4
$(OUT)/$1-own.done: $(OUT)/$1-own.jsonl
	$(TRACES) --task $1 --data $$< --reference small -o $(OUT)/$1-own
	touch $$@
$(OUT)/$1-first.gguf: $(OUT)/$1-own.done
	$(TRAIN) $(OUT)/$1-own -o $$@
$(OUT)/$1-routed.done: $(OUT)/$1-routed.jsonl $(OUT)/$1-first.gguf
	$(TRACES) --task $1 --data $$< --reference routed --router $(OUT)/$1-first.gguf --threshold 0.97 -o $(OUT)/$1-routed
	touch $$@
$(OUT)/$1-second.gguf: $(OUT)/$1-routed.done
	$(TRAIN) $(OUT)/$1-own $(OUT)/$1-routed -o $$@
$(OUT)/$1.gguf: $(OUT)/$1-certificate.jsonl $(OUT)/$1-second.gguf
	$(P) router calibrate $(PAIR) --task $1 -n 128 --data $$< --router $(OUT)/$1-second.gguf -o $$@
endef
$(eval $(call task,csqa,1-320,321-480,481-880))
$(eval $(call task,arc,1-320,321-480,481-880))

# The answers to test questions behind the tables: of both models alone, and with the judge.
asking-mbpp = --run-code
asking-humaneval = --run-code
$(OUT)/test-%.jsonl: $(OUT)/judge.gguf
	$(P) eval $* --split test --data "$$($(P) eval fetch $*)" --questions 400 $(PAIR) $(asking-$*) \
		--policy never,judge --verify off,0 --budget 0.05 --router $< -o $@.new
	mv $@.new $@

# A device with forward passes of 1/60 s, and 8% of that for each further token, like two otherwise idle cores; and a
# large model at least as slow as on those. The answers of all modes, one at a time, to be replayed over other links.
$(OUT)/times.recording: $(OUT)/csqa.gguf
	$(P) bench routing $(PAIR) --workload $(OUT)/csqa-certificate.jsonl --questions 100 -n 64 --router $< --parallel 1 \
		--modes local,cloud,serial,pipelined-auto --edge-tps 60 --edge-row-cost 0.08 --cloud-ms 40 --deadline off --record $@

.DELETE_ON_ERROR:
.SECONDARY:
