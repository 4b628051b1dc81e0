package measure

import (
	"bytes"

	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
)

// WritePage writes a report as a page. It replaces an existing file only after the new page is complete.
func WritePage(r *report.Report, path string) error {
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		return err
	}
	return cli.ReplaceFile(path, b.Bytes(), 0o644)
}
