module github.com/pilotfish-ai/pilotfish/kernels/cpu/_asm

go 1.26
