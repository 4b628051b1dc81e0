package translate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// strictText returns the input of the strict pass: the source, and a call of each kernel, so that templates are
// instantiated and the types of parameters are compared with their attributes, and with each other.
func (u *unit) strictText() string {
	var b strings.Builder
	b.WriteString(applyEdits(u.text, u.strict))
	for i, k := range u.kernels {
		args, groups := k.strictArguments()
		fmt.Fprintf(&b, "\n# %d %s\nstatic void msl_call%d() { %[4]s(%[5]s); "+
			"static_assert(msl_match(msl_groups<%[6]s>{}, &%[4]s), %[7]q); }",
			k.at.line, quoteASCII(k.at.file), i, oneLine(k.call), args, groups,
			"the positions and sizes that a kernel takes must have as many components, and related ones the same type")
	}
	return b.String() + "\n"
}

// strictArguments returns an argument for each parameter, and its number in builtins.
func (k kernel) strictArguments() (args, groups string) {
	for _, p := range k.Params {
		arg := "msl_number{0}"
		group, number := builtins[p.Kind]
		if !number {
			arg = "msl_" + p.Space + "_buffer{}"
		} else if group > 0 {
			arg = "msl_position{nullptr}"
		}
		args, groups = args+", "+arg, groups+", "+strconv.Itoa(group)
	}
	return strings.TrimPrefix(args, ", "), strings.TrimPrefix(groups, ", ")
}

// runText returns the text to run: the source, a thunk for each kernel that fetches its arguments, and tables of all of
// them.
func (u *unit) runText() (string, error) {
	var b strings.Builder
	b.WriteString(applyEdits(u.text, u.run))
	for i, k := range u.kernels {
		fmt.Fprintf(&b, "\n# %d %s\nMSL_THUNK msl_thunk%d() { msl_rt::Worker *w = msl_rt::self(); (void)w; %s(%s); }",
			k.at.line, quoteASCII(k.at.file), i, oneLine(k.call), strings.Join(argumentExpressions(k), ", "))
	}
	b.WriteString("\n# 1 \"<tables>\"\nstatic void msl_decide() { msl_rt::Worker *w = msl_rt::self(); (void)w; ")
	for i, c := range u.parameterConditions() {
		fmt.Fprintf(&b, "w->conditions[%d] = (bool)(%s); ", i, c)
	}
	b.WriteString("}\nextern \"C\" {\nextern const msl_rt::Kernel msl_kernels[];\n" +
		"const msl_rt::Kernel msl_kernels[] = {")
	for i, k := range u.kernels {
		fmt.Fprintf(&b, "{msl_thunk%d, (const void *)&%s}, ", i, oneLine(k.call))
	}
	b.WriteString("{msl_decide, nullptr}};\nextern const msl_rt::Constant msl_constants[];\n" +
		"const msl_rt::Constant msl_constants[] = {")
	for _, c := range u.constants {
		fmt.Fprintf(&b, "{(void *)&%s, &msl_given_%s, sizeof(%s)}, ", c.Name, c.Name, c.Name)
	}
	meta, err := json.Marshal(u.libraryDescription())
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "{nullptr, nullptr, 0}};\nextern const char msl_meta[];\nconst char msl_meta[] = %s;\n",
		quoteASCII(string(meta)))
	b.WriteString("}\n")
	return b.String(), nil
}

func argumentExpressions(k kernel) []string {
	args := make([]string, len(k.Params))
	for i, p := range k.Params {
		switch p.Kind {
		case "buffer":
			args[i] = fmt.Sprintf("msl_buffer{w->buffers[%d]}", p.Index)
		case "threadgroup":
			args[i] = fmt.Sprintf("msl_buffer{(ulong)w->memory[%d]}", p.Index)
		default:
			args[i] = "msl_in_" + p.Kind + "(w)"
		}
	}
	return args
}

func (u *unit) libraryDescription() Description {
	d := Description{Constants: u.constants, Conditions: u.parameterConditions()}
	for _, k := range u.kernels {
		d.Kernels = append(d.Kernels, k.Kernel)
	}
	return d
}

func (u *unit) parameterConditions() (all []string) {
	for _, k := range u.kernels {
		for _, p := range k.Params {
			if p.If != "" && !slices.Contains(all, p.If) {
				all = append(all, p.If)
			}
		}
	}
	return all
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func quoteASCII(s string) string { return strconv.QuoteToASCII(s) }
