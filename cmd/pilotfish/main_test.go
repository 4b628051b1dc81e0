package main

import (
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, newProgram()) }

// TestScripts runs testdata/script.
func TestScripts(t *testing.T) { clitest.Scripts(t) }
