// Package train trains a router, which decides whether a token of the small model may stand, on positions with a known
// answer. It has no I/O and no clock: positions come through [Source], and draws are functions of a seed.
//
// The network is linear → ReLU → linear on the final hidden state h and on margin and certainty of the head; without
// the layer in the middle it is logistic regression. With the label y = 1 for a token that may stand, and
// z the output of the network, the loss of a position is the cross-entropy of σ(z) = 1/(1 + exp(-z)),
//
//	ℓ = -y·ln σ(z) - (1-y)·ln σ(-z)
//
// This is the loss of CITER (arXiv 2502.01976, which trains on preferences). By Bradley and Terry, of two actions with
// rewards r_keep and r_escalate the first is preferred with probability exp(r_keep)/(exp(r_keep) + exp(r_escalate)) =
// σ(r_keep - r_escalate). Only the difference of the rewards can be observed, so let z be that difference. The
// log-likelihood of the preference "keep over escalate" is ln σ(z), that of the other is ln σ(-z), and the sum over
// pairs is -Σℓ.
//
// The optimiser is Adam (Kingma and Ba, arXiv 1412.6980) with bias correction. The learning rate rises over the first
// twentieth of the steps and then falls along a half cosine. Inputs are standardised with the mean and deviation of a
// sample, because single dimensions of hidden states may be hundreds of times as large as others; at the end the
// standardisation is folded into the first layer. Some prompts, never single tokens, are held back: training ends when
// the loss on them no longer falls, and the weights with the lowest loss are kept.
//
// Bound. An epoch over N positions of width D with H hidden units takes N·D·H multiply-adds forward and the same number
// for the gradient of the weights (that of the inputs is not needed), and reads 2·N·D bytes of half floats. Products
// use kernels/cpu; see bench/RESULTS.md for measurements.
//
// Promise: for one seed the result is the same, bit for bit, whatever the number of threads: the gradient of a batch is
// the sum of those of fixed chunks, in fixed order. Another kind of CPU may round differently.
package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu/pool"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Label says whether the small model's token at a position may stand.
type Label uint8

// The labels.
const (
	Unlabelled Label = iota // nothing: the position is left out
	Keep                    // it may stand
	Escalate                // the large model should choose
	Spoil                   // it may stand, and asking would make a right answer wrong
)

func (l Label) mayStand() bool { return l == Keep || l == Spoil }

// spoilWeight is the weight of a position that a question would spoil. The value of a question is what it corrects less
// what it spoils, but only corrections are learned. docs/study/training.md shows the effect of other weights.
const spoilWeight = 20

func (l Label) lossWeight() float64 {
	if l == Spoil {
		return spoilWeight
	}
	return 1
}

// Source provides positions to learn from. Positions of one text are consecutive. Its methods are called from several
// goroutines at once.
type Source interface {
	Len() int                               // positions
	Width() int                             // of the hidden state
	Prompt(i int) int                       // the same number for all texts that follow the same prompt
	Label(i int) Label                      // of position i
	Hidden(dst []float32, i int)            // sets dst [Width]
	Head(i int) (margin, certainty float32) // p₁ - p₂ and exp(-H), as [router.Net.Of] takes them
}

// Epochs is the default of the maximum number of epochs.
const Epochs = 20

// JudgeDecay is [Options.Decay] for judges, which have few positions and many inputs. On 16 divisions of 42 answers to
// GSM8K the mean area under the curve is 0.69 with it and 0.67 without, of 292 to CommonsenseQA 0.944 and 0.941.
const JudgeDecay = 10

// JudgeUnits is the factor of hidden units for judges, and JudgeRate their [Options.Rate]. On 288 answers to GSM8K, of
// which parts were left out, and the others and those to four other sets were learned from, the mean area under the
// curve is 0.678 with both, 0.674 with 64 units, and 0.665 with 256 at the rate of routers. With CommonsenseQA left out
// it is 0.899, and 0.863 at the rate of routers.
const (
	JudgeUnits = 4
	JudgeRate  = 0.0002
)

// Linear, as the number of hidden units, means a network without a hidden layer.
const Linear = -1

// Options say how to train. The zero value works.
type Options struct {
	Hidden  int     // hidden units; 0 means 64; [Linear] means none
	Epochs  int     // maximum; 0 means [Epochs]
	Rate    float64 // of learning, at its highest; 0 means 0.002
	Decay   float64 // of the weights: each step takes this times the rate of learning of each away
	Seed    uint64
	Threads int         // 0 means 1
	Observe func(Epoch) // called after each epoch; may be nil
}

// Epoch is the result of one pass over the positions.
type Epoch struct {
	Number int     // from 1
	Loss   float64 // mean cross-entropy of the held-out prompts, in nats; see spoilWeight
	Best   bool    // the lowest loss so far
}

// Result is a trained router, with its evaluation on the held-out prompts.
type Result struct {
	Net          *router.Net
	Epochs, Best int     // epochs that were run; the epoch with the weights kept
	Prompts      int     // learnt from
	Positions    int     // of these, labelled
	Escalate     float64 // share of these with the label escalate
	HeldOut      HeldOut // the prompts held back
	Loss         float64 // cross-entropy on them, nats
	AUC          float64 // on them; NaN if they have one label only
	Calibration  float64 // expected calibration error on them, ten bins
	Scale, Shift float64 // of the logits: 1 and 0 if calibration did not improve them; see [Train]
	Uncalibrated float64 // expected calibration error before that
}

// HeldOut holds the positions that are not used for training.
type HeldOut struct {
	Prompts int
	Rows    []int // labelled positions, in order
}

func (o Options) withTrainingDefaults() Options {
	o.Hidden, o.Epochs, o.Rate = cmp.Or(o.Hidden, 64), cmp.Or(o.Epochs, Epochs), cmp.Or(o.Rate, 0.002)
	o.Threads = max(o.Threads, 1)
	return o
}

const (
	share    = 0.1 // of the prompts that is held back
	patience = 4   // epochs without a better loss after which training ends
)

// Train trains a router. After training it fits a scale and a shift of the logits to one half of the held-out prompts
// (Platt, 1999); if these lower the cross-entropy of the other half, it fits them to both halves and includes them in
// the last layer. It stops between two batches when ctx ends.
func Train(ctx context.Context, src Source, o Options) (*Result, error) {
	o = o.withTrainingDefaults()
	parts, err := splitPrompts(src, share, o.Seed)
	if err != nil {
		return nil, err
	}
	pool := pool.New(o.Threads)
	defer pool.Close()
	t, err := newTrainer(src, o, parts, pool)
	if err != nil {
		return nil, err
	}
	r := &Result{Prompts: parts.prompts, Positions: t.keep + t.escalate, HeldOut: parts.heldOut,
		Escalate: float64(t.escalate) / float64(t.keep+t.escalate)}
	if err := t.trainEpochs(ctx, r); err != nil {
		return nil, err
	}
	logits, err := t.computeLogits(ctx, parts.heldOut.Rows)
	if err != nil {
		return nil, err
	}
	t.evaluateHeldOut(r, logits)
	r.Net, err = t.buildNet(r.Scale, r.Shift)
	return r, err
}

// trainEpochs trains until the epochs are over, or the loss on the held-out prompts has not fallen for a while. The
// best weights stay in t.
func (t *trainer) trainEpochs(ctx context.Context, r *Result) error {
	var best []float32
	least := math.Inf(1)
	for e := 1; e <= t.o.Epochs && e-r.Best <= patience; e++ {
		if err := t.trainEpoch(ctx, e); err != nil {
			return err
		}
		logits, err := t.computeLogits(ctx, t.parts.heldOut.Rows)
		if err != nil {
			return err
		}
		loss := 0.0
		for i, z := range logits {
			label := t.src.Label(t.parts.heldOut.Rows[i])
			loss += label.lossWeight() * crossEntropy(z, label.mayStand())
		}
		loss /= float64(len(logits))
		if math.IsNaN(loss) {
			return fmt.Errorf("epoch %d: the weights are no longer numbers: "+
				"train with a smaller rate of learning than %v", e, t.o.Rate)
		}
		r.Epochs = e
		if loss < least {
			least, r.Best = loss, e
			best = append(best[:0], t.theta...)
		}
		if t.o.Observe != nil {
			t.o.Observe(Epoch{Number: e, Loss: loss, Best: r.Best == e})
		}
	}
	if best == nil {
		return errors.New("no epoch left a loss that is a number: train with a smaller rate of learning")
	}
	copy(t.theta, best)
	return nil
}

// crossEntropy is -ln σ(z) where the token may stand, else -ln σ(-z), in nats.
func crossEntropy(z float64, keep bool) float64 {
	if keep {
		z = -z
	}
	return max(z, 0) + math.Log1p(math.Exp(-math.Abs(z))) // ln(1 + exp z) without overflow
}

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }
