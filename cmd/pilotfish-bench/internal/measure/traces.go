package measure

import (
	"fmt"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/link"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
)

// CheckTraces checks the traces of one link.
func CheckTraces(paths []string) error {
	rtt, up, down := 0, 0, 0
	for _, path := range paths {
		if path == "" {
			return cli.Usagef("--trace %s: a name is missing: give files, as a.up,b.rtt.csv", strings.Join(paths, ","))
		}
		var o link.Options
		if err := o.AddTrace(path); err != nil {
			return fmt.Errorf("--trace %s: %w", path, err)
		}
		if o.RTT != nil {
			rtt++
		}
		if o.Up.Capacity != nil {
			up++
		}
		if o.Down.Capacity != nil {
			down++
		}
		if max(rtt, up, down) > 1 {
			return cli.Usagef(
				"--trace %s is a second trace of its kind: give only one of round trips, one up and one down",
				path)
		}
	}
	return nil
}
