package replay

import "time"

// ReadAt replaces the recorded times by those of a device and a server that read prompts at these speeds, in tokens per
// second. The time of each token is left to [Terms], and that of the link to both. So a replay no longer depends on the
// machine of the recording. The mode cloud has to be recorded.
func (r *Recording) ReadAt(device, server float64) {
	for _, a := range r.Answers {
		speed := device
		if a.largeAlone() {
			speed = server
		}
		a.Prefill = time.Duration(float64(len(a.Prompt)) / speed * float64(time.Second))
		if a.largeAlone() {
			a.Took = r.RTT + a.Prefill + time.Duration(len(a.IDs))*r.CloudPace
		}
		for i := range a.Asks {
			a.Asks[i].Queue, a.Asks[i].Cloud, a.Asks[i].Took = 0, 0, 0
		}
	}
}

// Asked returns the tokens of a serial answer that were asked for, by their places in the text.
func (a *Answer) Asked() map[int]bool {
	places := map[int]bool{}
	for _, q := range a.Asks {
		if !q.Warm {
			places[len(a.nodeContext(q.Node))-len(a.Prompt)] = true
		}
	}
	return places
}
