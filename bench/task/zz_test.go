package task

import ("testing";"context";"fmt";"github.com/pilotfish-ai/pilotfish/bench/sandbox";"time")

func TestRefs(t *testing.T) {
	p, err := sandbox.New(t.Context())
	if err != nil { t.Fatal(err) }
	for name, file := range map[string]string{HumanEval: "/tmp/h2data/HumanEval.jsonl.gz", MBPP: "/tmp/h2data/mbpp.jsonl", MBPPTrain:"/tmp/h2data/mbpp.jsonl"} {
		s, err := Open(name, Options{Data: file, Run: p.Run})
		if err != nil { t.Fatal(err) }
		fmt.Println(name, len(s.Questions), s.Hash)
		b := time.Now()
		bad := make(chan string, 1000)
		sem := make(chan int, 2)
		for _, q := range s.Questions {
			sem <- 1
			go func() {
			v, err := q.Judge(context.Background(), q.Reference)
			w, err2 := q.Judge(context.Background(), q.RawReference)
			if v != Right || err != nil || w != Right || err2 != nil { bad <- fmt.Sprint(q.ID, v, err, w, err2) }
			<-sem
			}()
		}
		sem<-1; sem<-1
		close(bad)
		for b := range bad { fmt.Println("BAD", b) }
		fmt.Println(time.Since(b))
	}
}
