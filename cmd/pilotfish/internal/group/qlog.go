package group

import (
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/netproto/qlog"
)

// QlogFlag is the folder for files about connections.
type QlogFlag struct{ path string }

// Register adds the flags to a command.
func (q *QlogFlag) Register(p *pflag.FlagSet) {
	cli.Add(p, "qlog", &q.path, "")
}

// Folder creates the folder and returns its path; "" if the flag is not set.
func (q *QlogFlag) Folder() (string, error) {
	_, err := q.Open()
	return q.path, err
}

// Open creates the folder; it returns nil if the flag is not set. The folder is closed after all connections.
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
