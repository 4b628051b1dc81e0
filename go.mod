module github.com/pilotfish-ai/pilotfish

go 1.26
