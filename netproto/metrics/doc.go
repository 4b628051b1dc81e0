// Package metrics counts what a gateway does and holds, and what a server for programs does, in the form of Prometheus.
// Every label has few values that no client chooses: outcomes, codes, and the names that the operator gave to access
// tokens.
package metrics
