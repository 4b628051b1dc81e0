package speed

import "github.com/pilotfish-ai/pilotfish/kernels/cpu"

// Microkernel is a line of the table of matrix products: which function computes a product.
type Microkernel struct {
	Set      string `json:"set"`       // instruction set
	InUse    bool   `json:"in_use"`    // by this program on this CPU
	Type     string `json:"type"`      // of the weights
	From     int    `json:"from"`      // number of tokens in a pass, from here
	To       *int   `json:"to"`        // up to here; null where there is no end
	Kernel   string `json:"kernel"`    // function
	File     string `json:"file"`      // that it is in
	Pack     string `json:"pack"`      // function that packs or converts the weights before; "": none
	PackFile string `json:"pack_file"` // that it is in
}

// Microkernels returns the table of this architecture and build, of all its instruction sets.
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
