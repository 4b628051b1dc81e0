package metalplan

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Write prints a plan as text.
func (p Plan) Write(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "KERNEL\tCOUNT\tTHREADGROUPS\tTHREADS\tKB\tKB FROM CACHES\tINSTRUCTIONS/1000\t"+
		"KiB IN FLIGHT/CORE\tTRIPS\tIDLE %\tµs\tLIMIT\t")
	for _, d := range p.Dispatches {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.1f\t%.0f\t%.0f\t%.1f\t%d\t%.1f\t%.1f\t%s\t\n", d.Kernel, d.Count, d.Groups,
			d.Threads, float64(d.Bytes)/1e3, float64(d.Cached)/1e3, d.Instructions/1e3, float64(d.InFlight)/1024,
			d.Trips, 100*d.Idle, d.Micros, d.Limit)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(to, "predicted, with %d tokens of context: %.1f MB and %d levels in %.2f ms, %.0f tokens/s\n",
		p.Context, float64(p.Bytes)/1e6, p.Levels, p.Micros/1e3, p.Tokens)
	return err
}
