package group

import (
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/netproto/qlog"
)

// QlogFlag says where files about connections go.
type QlogFlag struct{ path string }

// Register adds the flags to those of a command.
func (q *QlogFlag) Register(p *pflag.FlagSet) {
	cli.Add(p, "qlog", &q.path, "")
}

// Folder makes the folder, and returns its path; "" where none is wanted.
func (q *QlogFlag) Folder() (string, error) {
	_, err := q.Open()
	return q.path, err
}

// Open makes the folder, and returns nil where none is wanted. It is closed when all connections are.
func (q *QlogFlag) Open() (*qlog.Folder, error) {
	if q.path == "" {
		return nil, nil
	}
	f, err := qlog.Open(q.path)
	if err != nil {
		return nil, cli.Usagef("--qlog: %w", err)
	}
	return f, nil
}
