package main

import (
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/netproto/qlog"
)

// qlogFlag says where files about connections go.
type qlogFlag struct{ path string }

func (q *qlogFlag) register(p *pflag.FlagSet) {
	add(p, "qlog", &q.path, "")
}

// open makes the folder, and returns nil where none is wanted. It is closed when all connections are.
func (q *qlogFlag) open() (*qlog.Folder, error) {
	if q.path == "" {
		return nil, nil
	}
	f, err := qlog.Open(q.path)
	if err != nil {
		return nil, usagef("--qlog: %w", err)
	}
	return f, nil
}
