package batch

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/fair"
)

// rowPace is how long a row of a step takes, and what follows for questions that have only so much time.
type rowPace struct {
	step  int           // rows of a full step
	row   time.Duration // it takes at least this long; 0: not known yet
	retry fair.RetryTimes
}

// learnStep learns the time of a row from a step that is at least half full.
func (p *rowPace) learnStep(rows int, took time.Duration) {
	if rows >= p.step/2 {
		fair.LearnLeast(&p.row, took/time.Duration(rows))
	}
}

// lateBy returns by how much the answer to a long question will come after the end of its time because of questions
// before it in its queue, if no others come; 0 if it may come in time. One that would be late even alone is not
// refused: what is computed in its time is there for the next one of its session.
func (p *rowPace) lateBy(a *ask, queue *fair.Queue[*ask], now time.Time) time.Duration {
	alone := time.Duration(a.Work()+uint64(p.step)) * p.row // to the end of a step
	if alone == 0 || alone > a.Within || a.Work() <= uint64(shortRows(p.step)) {
		return 0
	}
	return max(0, now.Sub(a.since)+alone+time.Duration(queue.Ahead(&a.Entry))*p.row-a.Within)
}
