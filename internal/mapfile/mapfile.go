// Package mapfile returns the bytes of a file as read-only memory: mapped if the system supports it.
package mapfile
