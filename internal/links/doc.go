// Package links holds the test that pages of the repository lead to what is there: links, anchors, names of files.
package links
