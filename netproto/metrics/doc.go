// Package metrics has the Prometheus metrics of a gateway, and makes those of others. Labels have few values, and
// clients do not choose them: outcomes, codes, and the operator's names of access tokens.
package metrics
