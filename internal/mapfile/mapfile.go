// Package mapfile shows the bytes of a file as memory, to be read only: mapped where the system can do that.
package mapfile
