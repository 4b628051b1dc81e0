package speed

import "github.com/pilotfish-ai/pilotfish/kernels/cpu"

// Microkernel is a line of the table of matrix products: the function for a product.
type Microkernel struct {
	Set      string `json:"set"`       // instruction set
	InUse    bool   `json:"in_use"`    // by this program on this CPU
	Type     string `json:"type"`      // of the weights
	From     int    `json:"from"`      // minimum number of tokens in a pass
	To       *int   `json:"to"`        // maximum number; null if there is none
	Kernel   string `json:"kernel"`    // function
	File     string `json:"file"`      // of the function
	Pack     string `json:"pack"`      // function that packs or converts the weights before; "": none
	PackFile string `json:"pack_file"` // of that function
}

// Microkernels returns the table of this architecture and build, for all its instruction sets.
func Microkernels() (table []Microkernel) {
	use := cpu.Features()
	for _, m := range cpu.Microkernels() {
		line := Microkernel{
			Set: m.Set, InUse: m.Set == use, Type: m.Type.String(), From: m.From, Kernel: m.Kernel, Pack: m.Pack,
		}
		line.File, line.PackFile = m.Files()
		if m.To > 0 {
			line.To = &m.To
		}
		table = append(table, line)
	}
	return table
}
