// Package links contains a test that links in pages of the repository have valid targets: links, anchors, names of
// files.
package links
