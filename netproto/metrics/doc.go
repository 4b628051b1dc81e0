// Package metrics has the Prometheus metrics of a gateway and of a server for programs. Labels have few values, and
// clients do not choose them: outcomes, codes, and the operator's names of access tokens.
package metrics
