# Trains and certifies the routers of the real pair, and records its times: make -f bench/results/real.mk OUT=… MODELS=…
# The training split of each task is cut into disjoint parts: for traces of the small model's own answers, for traces of
# routed ones, and for the certificate. Routers are trained with the effects of single questions to the large model,
# first in the small model's own answers and then in the answers with such a router. The sizes are for a few hours on
# two cores.
P = $(OUT)/pilotfish
PAIR = -m $(MODELS)/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf --large $(MODELS)/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf
TRACES = $(P) router collect --label disagreement,consequence $(PAIR)
TRAIN = $(P) router train --label consequence --hidden 16

comma = ,

all: $(OUT)/csqa.gguf $(OUT)/arc.gguf $(OUT)/gsm8k.gguf $(OUT)/mbpp.gguf $(OUT)/times.recording

# task NAME, --task of the training split, tokens of an answer in traces and in the evaluation, lines of the fetched
# file for the three parts, more flags of what grades. A file of traces is complete when .done is beside it.
define task
$(OUT)/$1-%.jsonl:
	sed -n "$$(subst -,$$(comma),$$(lines-$1-$$*))p" "$$$$($(P) eval fetch $1-train)" >$$@.new
	mv $$@.new $$@
lines-$1-own = $5
lines-$1-routed = $6
lines-$1-certificate = $7
$(OUT)/$1-own.done: $(OUT)/$1-own.jsonl
	$(TRACES) --task $2 -n $3 --data $$< --reference small $8 -o $(OUT)/$1-own
	touch $$@
$(OUT)/$1-first.gguf: $(OUT)/$1-own.done
	$(TRAIN) $(OUT)/$1-own -o $$@
$(OUT)/$1-routed.done: $(OUT)/$1-routed.jsonl $(OUT)/$1-first.gguf
	$(TRACES) --task $2 -n $3 --data $$< --reference routed --router $(OUT)/$1-first.gguf --threshold 0.97 $8 -o $(OUT)/$1-routed
	touch $$@
$(OUT)/$1-second.gguf: $(OUT)/$1-routed.done
	$(TRAIN) $(OUT)/$1-own $(OUT)/$1-routed -o $$@
$(OUT)/$1.gguf: $(OUT)/$1-certificate.jsonl $(OUT)/$1-second.gguf
	$(P) router calibrate $(PAIR) --task $2 -n $4 --data $$< $8 --router $(OUT)/$1-second.gguf -o $$@
endef
$(eval $(call task,csqa,csqa,96,64,1-320,321-480,481-880))
$(eval $(call task,arc,arc,96,64,1-320,321-480,481-880))
$(eval $(call task,gsm8k,gsm8k,320,320,1-96,97-144,145-264))
# The training split begins at line 601 of the file with all parts.
$(eval $(call task,mbpp,mbpp-train,256,256,601-696,697-744,745-974,--run-code))

# A device with forward passes of 1/60 s, and 8% of that for each further token, like two otherwise idle cores; and a
# large model at least as slow as on those. The answers of all modes, one at a time, to be replayed over other links.
$(OUT)/times.recording: $(OUT)/csqa.gguf
	$(P) bench routing $(PAIR) --workload $(OUT)/csqa-certificate.jsonl --questions 100 -n 64 --router $< --parallel 1 \
		--modes local,cloud,serial,pipelined-auto --edge-tps 60 --edge-row-cost 0.08 --cloud-ms 40 --deadline off --record $@

.DELETE_ON_ERROR:
.SECONDARY:
