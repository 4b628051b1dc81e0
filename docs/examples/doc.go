// Package examples holds programs that embed Pilotfish, one in each folder, each complete. From the root of a clone
// they run as they are: go run ./docs/examples/local. docs/use/embedding.md explains them. The package itself holds
// tests only.
package examples
