package jinja

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// cases is the file that testdata/cases.py writes.
type cases struct {
	Values fields
	Thinks string // a template in the manner of models that think
	Tags   string // the same, with calls in tags
	Cases  []struct {
		Template string // "": Thinks, or Tags
		Tags     bool
		Values   fields // absent: those of all cases
		Text     *string
		Error    string // of jinja2
	}
}

// fields are values in the order of the file.
type fields Object

func (f *fields) UnmarshalJSON(b []byte) error {
	r := &renderer{left: baseWork}
	all := r.parseJSON(b).(*dict)
	var raw map[string]json.RawMessage
	for _, k := range all.keys {
		if err := json.Unmarshal(b, &raw); err != nil {
			return err
		}
		name := k.(str).String
		*f = append(*f, Field{name, raw[name]})
	}
	return nil
}

func readCases(t testing.TB) (c cases) {
	t.Helper()
	b, err := os.ReadFile("testdata/cases.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &c))
	require.Greater(t, len(c.Cases), 150)
	return c
}

// rendered parses and renders a template.
func rendered(source string, values Object) (Text, error) {
	t, err := Parse(source)
	if err != nil {
		return Text{}, err
	}
	return t.Render(values)
}

// TestCases: this package renders the same bytes as jinja2, and refuses what jinja2 refuses.
func TestCases(t *testing.T) {
	all := readCases(t)
	for _, c := range all.Cases {
		if c.Tags {
			c.Template = all.Tags
		} else if c.Template == "" {
			c.Template = all.Thinks
		}
		if c.Values == nil {
			c.Values = all.Values
		}
		got, err := rendered(c.Template, Object(c.Values))
		if c.Text == nil {
			var e *Error
			assert.ErrorAs(t, err, &e, "%s\njinja2: %s", c.Template, c.Error)
			continue
		}
		if assert.NoError(t, err, c.Template) {
			assert.Equal(t, *c.Text, got.String, c.Template)
			assert.Len(t, got.Given, len(got.String))
		}
	}
}

// TestOrigin: each byte is known to be from the values or from the template, whatever the template does with it.
func TestOrigin(t *testing.T) {
	values := Object{{"x", " aB|c "}, {"wide", "ɐ"}, {"bos", Trusted("<s>")},
		{"shout", Func(func(text string) (string, error) { return text + "!", nil })},
		{"tool", json.RawMessage(`{"k|": "|v|"}`)}, {"n", 12}, {"fields", Object{{"k|", "|v|"}}}}
	for source, want := range map[string]string{
		`<|{{ x }}|>`: "00111111" + "00", `{{ x.strip() }}|`: "11110", `{{ x | upper }}|`: "1111110",
		`{{ x[1] ~ '|' ~ x[::-1] }}`: "10111111", `{{ x.replace('|', '<|>') }}`: "11100011",
		`{{ '<{}|{:>4}|{1}'.format(x, wide) }}`: "0111111" + "0000110" + "11",
		`{{ '%s|%-3s%%' % (x, bos) }}`:          "111111" + "0" + "0000",
		`{{ ('<' | safe) + 'a<' + x[4:] }}`:     "00000011",
		`{{ shout('|') }}|`:                     "110", `{{ x.center(8, '|') }}`: "01111110",
		`{{ x | e ~ '&' | e }}`:                     "11111100000",
		`{% filter upper %}|{{ x }}{% endfilter %}`: "0111111",
		`{{ x.split('|')[1] + '|' }}`:               "110", `{{ '|'.join([x, '|', x]) }}`: "111111" + "000" + "111111",
		`{% set y %}|{{ x }}{% endset %}{{ y }}`: "0111111", `{{ tool | tojson }}|`: strings.Repeat("1", 13) + "0",
		`{{ tool }}|`: strings.Repeat("1", 13) + "0", `{% for k in tool %}|{{ k }}{% endfor %}`: "011",
		`{{ {x: '|'} | items | first | first }}`: "111111", `{{ (x * 2)[:7] ~ '|' * 2 }}`: "111111100",
		`{% macro f(a) %}|{{ a }}{% endmacro %}{{ f(x) }}`: "0111111", `{{ x | indent(1, true) }}`: "0111111",
		`{{ ('ɐ' ~ wide ~ 'ɐ') | upper }}`:  "000" + "111" + "000",
		`{{ (wide ~ 'ı' ~ wide) | upper }}`: "111" + "0" + "111",
		`{{ n ~ '|' }}`:                     "110", `{{ bos ~ x }}{{ bos | upper }}`: "000" + "111111" + "000",
		`{{ 'a|b'.split('|')[1] ~ x.rsplit('|')[1] ~ '|' }}`:        "0110",
		`{{ (x ~ '\n|').splitlines() | join('|') }}`:                "111111" + "00",
		`{% for k, v in tool.items() %}{{ k }}|{{ v }}{% endfor %}`: "110111",
		`{{ [x, '|'] | sort | join }}`:                              "1111110",
		`{{ none | default('|') ~ missing | default(x) }}`:          "1111111111",
		`{% for k in fields %}|{{ k }}{{ fields[k] }}{% endfor %}`:  "011111",
	} {
		got, err := rendered(source, values)
		if assert.NoError(t, err, source) {
			assert.Equal(t, want, got.Given, "%s: %s", source, got.String)
		}
	}
}

// deep returns a template that nests a value n times: what makes the next one of ns.v.
func deep(n int, next string) string {
	return fmt.Sprintf("{%% set ns = namespace(v=[1]) %%}{%% for i in range(%d) %%}{%% set ns.v = %s %%}{%% endfor %%}",
		n, next)
}

// hostile are templates that would run for ever, or take all memory or the whole stack.
var hostile = []string{
	`{% for i in range(1000000000) %}{% endfor %}`,
	`{% for i in range(9999) %}{% for i in range(9999) %}{% for i in range(99) %}{% endfor %}{% endfor %}{% endfor %}`,
	`{% for i in range(0, -1000000000000, -1) %}{{ i }}{% endfor %}`,
	`{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}`,
	`{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}`,
	`{% macro f(a=f()) %}{% endmacro %}{{ f() }}`,
	`{% set ns = namespace(s="aaaaaaaaaaaaaaaa") %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}`,
	`{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}`,
	deep(9999, `[ns.v, ns.v]`) + `{{ ns.v }}`,
	deep(40, `[ns.v, ns.v]`) + `{{ ns.v | tojson }}`,
	deep(9999, `[ns.v, ns.v]`) + `{{ ns.v == ns.v }}`,
	deep(9999, `{"a": ns.v}`) + `{{ ns.v | tojson(indent=60) }}`,
	`{{ [1] * 1000000000 }}`, `{{ 9007199254740991 * [] }}`, `{{ "a" * 1000000000 }}`, `{{ "a" * 9007199254740992 }}`,
	`{{ ("a" * 1024) * 9007199254740992 }}`, `{{ "ab" * 4611686018427387904 }}`,
	`{% set a = "a" * 500000 %}{% for i in range(9999) %}{% if a == "a" * 500000 %}{% endif %}{% endfor %}`,
	`{% set a = "a" * 500000 %}{% for i in range(9999) %}{{ a.strip(a) }}{% endfor %}`,
	`{% set a = "a" * 500000 %}{% for i in range(9999) %}{{ a.split("a") | length }}{% endfor %}`,
	`{% set a = "a" * 500000 %}{% for i in range(9999) %}{{ a | length }}{{ a[3] }}{{ a.upper() | first }}{% endfor %}`,
	`{{ ("a" * 100000).replace("a", "b" * 100000) }}`, `{{ ("b" * 9999) | indent(1000000000, true) }}`,
	`{{ (("a\n") * 9999) | indent(9999) }}`, `{{ (range(100000) | list) | join("x" * 100000) }}`,
	`{{ range(100000) | unique | list }}`, `{{ 2 ** 9999 }}`, `{{ 9 ** 9 ** 9 }}`,
	`{{ 1.5 | round(1000000000) }}{{ 1 / 0 }}`,
	strings.Repeat("(", 9999) + strings.Repeat(")", 9999), `{{ ` + strings.Repeat("(", 9999),
	`{{ ` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + ` }}`,
	`{{ ` + strings.Repeat("not ", 9999) + `1 }}`,
	`{{ ` + strings.Repeat("-", 9999) + `1 }}`, `{{ 1` + strings.Repeat("+1", 9999) + ` }}`,
	`{{ "a"` + strings.Repeat("[0]", 9999) + ` }}`, `{{ a` + strings.Repeat("()", 9999) + ` }}`,
	`{{ a` + strings.Repeat(".a", 9999) + ` }}`, `{{ a` + strings.Repeat("|d(1)", 9999) + ` }}`,
	`{{ 1` + strings.Repeat(" if 1 else 1", 9999) + ` }}`, `{{ 1` + strings.Repeat(" and 1 or 1", 9999) + ` }}`,
	strings.Repeat(`{% if 1 %}`, 9999) + strings.Repeat(`{% endif %}`, 9999),
	`{% if 0 %}` + strings.Repeat(`{% elif 0 %}`, 9999) + `{% endif %}`,
	strings.Repeat("x", maxSource+1),
	`{% set ns = namespace(v=range(999) | list) %}{% for i in range(900) %}{% set ns.v = [ns.v] %}{% endfor %}` +
		`{{ ns.v | tojson(indent=64) }}`,
	`{% set c = "c" * 100000 %}{{ range(1999) | list | tojson(separators=[c, c]) }}`,
	`{{ ` + strings.Repeat(`"a"`, maxSource/3-9),
	`{% macro f(` + names(9999) + `) %}{% endmacro %}{% for i in range(999) %}{{ f() }}{% endfor %}`,
	`{% set l = range(9999) %}` + strings.Replace(deep(9, `ns.v + ns.v`), "1", "l", 1) +
		`{% for ` + names(9999) + ` in ns.v %}{% endfor %}`,
	strings.Replace(deep(16, `ns.v + ns.v`), "1", "digits", 1) + `{{ ns.v | tojson }}`,
	`{% set s = " " * 99999 %}{% for i in range(9999) %}{{ s | int }}{% endfor %}`,
	`{% set s = " " * 99999 %}{% for i in range(9999) %}{{ s | float }}{% endfor %}`,
	`{% macro f() %}{% call f() %}{% endcall %}{% endmacro %}{{ f() }}`,
	`{% macro f() %}{{ caller() }}{% endmacro %}{% macro g() %}{% call f() %}{{ g() }}{% endcall %}` +
		`{% endmacro %}{{ g() }}`,
	`{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}`, `{{ ("{:999}" * 99999).format(*range(99999)) }}`,
	`{{ ("{0:999}" * 99999).format(1) }}`, `{{ ("%999d" * 9999) % range(9999) }}`,
	`{% set s = "&" * 99999 %}{% for i in range(9999) %}{{ s | e }}{% endfor %}`,
	`{% for i in range(9999) %}{{ dict(**{"a": range(99999) | list}) }}{% endfor %}`,
	`{% macro f() %}{{ varargs }}{% endmacro %}{% set l = range(9999) %}{% for i in l %}{{ f(*l) }}{% endfor %}`,
	strings.Repeat(`{% filter upper %}`, 9999) + strings.Repeat(`{% endfilter %}`, 9999),
	strings.Repeat(`{% with a = 1 %}`, 9999) + strings.Repeat(`{% endwith %}`, 9999),
	`{{ 1` + strings.Repeat(" < 1", 9999) + ` }}`, `{{ "{0` + strings.Repeat("[0]", 99999) + `}".format([1]) }}`,
}

// names returns n names with commas between them.
func names(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "n%d,", i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// TestHostile: every template ends, and none takes much memory.
func TestHostile(t *testing.T) {
	held.Bounded(t)
	for _, source := range hostile {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := rendered(source, Object{{"digits", json.RawMessage(strings.Repeat("9", maxNumber))}})
		runtime.ReadMemStats(&after)
		name := source[:min(len(source), 90)]
		if !strings.HasPrefix(source, "((") { // that is text
			assert.Error(t, err, name)
		}
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), name)
	}
}

// TestWork: what reads or makes a large value takes at least a unit of work for each byte or element, also if it writes
// nothing.
func TestWork(t *testing.T) {
	const n = 10_000
	list, object := make([]any, n), make(Object, n)
	for i := range n {
		list[i], object[i] = i, Field{fmt.Sprint(i), i}
	}
	r := &renderer{scope: &scope{vars: globalFunctions()}}
	for name, v := range map[string]any{"s": strings.Repeat("a b ", n/4), "l": list, "d": object} {
		r.scope.vars[name], r.scope.vars[name+"2"] = r.convertInput(v), r.convertInput(v)
	}
	expressions := []string{"s ~ 1", "s + 'x'", "'x' * 10000", "s == s2", "s < s2", "'x' in s", "s[1]", "s[::-1]",
		"s | list", "s | first", "s | length", "s | indent", "s | int", "s | float", "s | tojson", "s | join",
		"s | upper", "s | title", "s | replace('a', 'b')", "s.strip()", "s.split()", "s.split('b')", "s.rsplit('b')",
		"s.splitlines()", "s.find('x')", "s.rfind('x')", "s.count('x')", "s.isdigit()", "s.startswith('x')",
		"d[s]", "d.get(s)", "s in d",
		"['a', 'b'] | sort | join(s)", "s.startswith(l | map('string') | list)", "l + l", "l == l2", "l < l2",
		"-1 in l", "l[::-1]", "l | list", "l | sort", "l | join", "l | tojson", "l ~ 1", "l | select",
		"l | map('string')",
		"[{}] | map(attribute=s)", "[1] | map(attribute=s)",
		"l | min", "l | max", "l | sum", "l | reverse", "l.index(-1) if -1 in l", "l.count(1)", "s | e",
		"s | wordcount", "s.isalpha()", "s.partition('b')", "s.center(9)", "s.format(1)", "s % ()",
		"'{}'.format(s)", "'%s' % s",
		"d | map('string')", "d | min", "dict(**d)", "range(*[10000])", "'x'.join(*[l])", "s | map('upper')",
		"l | map(attribute='x')", "l | reject('eq', -1)", "d | list", "d | items",
		"d | first", "d | dictsort", "d.keys()", "d.values()", "d.items()", "dict(d)", "d | tojson",
		"d | tojson(sort_keys=true)", "d ~ 1", "d == d2", "range(10000)", "[0" + strings.Repeat(",0", n) + "]",
		"{'a': 0" + strings.Repeat(",'a': 0", n) + "}", "range(1" + strings.Repeat(",1", n) + ")"}
	sources := []string{"{{ s }}", "{% for x in l %}{% endfor %}", "{% for x in l if false %}{% endfor %}",
		"{% for " + names(n) + " in [l] %}{% endfor %}", "{% macro f(" + names(n) + ") %}{% endmacro %}{{ f() }}",
		strings.Repeat("x", n), strings.Repeat("{% if x %}{% endif %}", n)}
	for _, e := range expressions {
		sources = append(sources, "{% set x = "+e+" %}")
	}
	for _, source := range sources {
		tmpl, err := Parse(source)
		require.NoError(t, err, source)
		r.left = 100 * n * n
		tmpl.body.runStatements(r)
		assert.GreaterOrEqual(t, 100*n*n-r.left, n, "%.90s", source)
	}
	for _, e := range []string{"1" + strings.Repeat("|d", 400), "1" + strings.Repeat("+1", 400),
		strings.Repeat("-", 400) + "1", "1" + strings.Repeat(" is none", 400)} {
		tmpl, err := Parse("{% set x = " + e + " %}")
		require.NoError(t, err)
		r.left = n
		tmpl.body.runStatements(r)
		assert.GreaterOrEqual(t, n-r.left, 400, "operations: %.90s", e)
	}
}

// refusedTemplates are templates with errors, with the line and the reason that these name.
var refusedTemplates = map[string]string{
	"{{ raise_exception() }}":                                      "line 1 of the template: the template refuses",
	"a\n{{ raise_exception('Only \"user\".') }}":                   `line 2 of the template: Only "user".`,
	"{% for x in y %}\n\n{{ x.":                                    "line 3 of the template: a tag has no end",
	"{% macro f() %}\n{{ 1 }}\n{% endmacro %}\n{{ f() ~ x.y }}":    "line 4 of the template: x has no fields",
	"{% macro f() %}\n\n{{ x.y }}{% endmacro %}\n{{ 1 }}{{ f() }}": "line 3 of the template: x has no fields",
	"{% if no %}\n{% elif 0 %}\n{% elif x.y %}\n{% endif %}":       "line 3 of the template: x has no fields",
	"{% set a, b %}\n{{ 1 }}\n\n{% endset %}":                      "line 1 of the template: 3 values for 2 names",
	"{% for i in [1] %}\n{{ i }}\n{{ x.y }}{% endfor %}":           "line 3 of the template: x has no fields",
	"\n{% include 'x' %}": `line 2 of the template: the statement "include" is not ` +
		"supported",
	"{% for x in [1] %}{% set y %}{% break %}{% endset %}{% endfor %}": "break stands outside of a loop",
	"{{ missing.field }}":               "line 1 of the template: missing has no fields: it is not defined",
	"{{ tool('x') }}{{ 1 }}":            "tool cannot be called: it is not defined, or not supported",
	"{{ {}.nope() }}":                   "nope cannot be called: it is not defined, or not supported",
	"{{ 'x'() }}":                       "a text cannot be called",
	"{{ x[0] }}":                        "x has no elements: it is not defined",
	"{{ '%y' % 1 }}":                    "the format %y is not supported",
	"{{ '%d' % 'a' }}":                  "a text is not a number, which the format needs",
	"{{ '%s%s' % 'a' }}":                "the format has more places than values",
	"{{ '{a}'.format(1) }}":             `the format needs a value "a"`,
	"{{ '{:1001}'.format(1) }}":         "a format of more than 1000 characters",
	"{{ '{:.2}'.format(1.5) }}":         "a precision needs f, e or g after it",
	"{{ 'a'.ljust(1001) }}":             "a width of more than 1000 characters",
	"{% call 1 %}{% endcall %}":         "call needs a call, such as f()",
	"{{ {[]: 1} }}":                     "a list cannot be the name of a field",
	"{{ now('%Q') }}":                   "line 1 of the template: no %Q",
	"{{ 'x'.split('') }}":               "split needs a separator that is not empty",
	"{{ 'x'.rsplit('') }}":              "rsplit needs a separator that is not empty",
	"{{ 'x'.replace('', 'y') }}":        "replace needs a text to replace that is not empty",
	"{{ 'x'.find('x', 1) }}":            "a search in a part of a text is not supported",
	"{{ range(1, 2, 0) }}":              "the step of a range is 0",
	"{{ 'x'[::0] }}":                    "the step of a slice is 0",
	"{{ [1][0:1:1:1] }}":                "a slice has at most three parts",
	"{{ 'x'[] }}":                       "an index is expected before ]",
	"{{ 1e999 }}":                       "1e999 is not a number of a size that is supported",
	"{{ range }}":                       "a function has no text",
	"{{ 'x' + 1 }}":                     "a text + a number is not possible",
	"{{ range(10**9) }}":                "line 1 of the template: the template exceeds its limits",
	"{% set a = 1 %}{% set a.b = 2 %}":  "a.b cannot be set: a is not a namespace",
	"{{ x | tojson }}{{ x['a']['b'] }}": "an undefined value is not JSON",
}

// TestRefused: a refusal by the template itself has its own error.
func TestRefused(t *testing.T) {
	now := Func(func(text string) (string, error) { return "", fmt.Errorf("no %s", text) })
	for source, want := range refusedTemplates {
		t.Run(source, func(t *testing.T) {
			_, err := rendered(source, Object{{"now", now}})
			require.ErrorContains(t, err, want)
			_, raised := err.(*Error).Err.(*RaisedError)
			assert.Equal(t, strings.Contains(source, "raise_"), raised)
		})
	}
	_, err := rendered("{{ range(10**9) }}", nil)
	assert.ErrorIs(t, err, ErrLimit)
}

// TestLimits: values are JSON with a limited depth and numbers of limited length, and a template has a limited length.
func TestLimits(t *testing.T) {
	_, err := rendered("{{ x }}", Object{{"x", json.RawMessage(`{"a":}`)}})
	assert.ErrorContains(t, err, "this is not JSON")
	_, err = rendered("{{ x }}", Object{{"x", json.RawMessage(`{} 1`)}})
	assert.ErrorContains(t, err, "this is not JSON")
	deep := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	assert.ErrorContains(t, CheckJSON(deep(maxNested+1)), "more than 1000 deep")
	assert.NoError(t, CheckJSON(deep(maxNested)))
	_, err = rendered("{{ x }}", Object{{"x", json.RawMessage("[" + strings.Repeat("9", maxNumber+1) + "]")}})
	assert.ErrorContains(t, err, "a number of 1001 characters, at most 1000 are possible")
	_, err = rendered("{{ x }}", Object{{"x", json.RawMessage("[" + strings.Repeat("9", maxNumber) + "]")}})
	assert.NoError(t, err)
	_, err = Parse(strings.Repeat("x", maxSource))
	assert.NoError(t, err)
	got, err := rendered("{{ x | tojson }}", Object{{"x", json.RawMessage(`[1e3,-0,1.50,12345678901234567890123]`)}})
	require.NoError(t, err)
	assert.Equal(t, `[1e3, -0, 1.50, 12345678901234567890123]`, got.String, "numbers stay as a request wrote them")
}

// TestShortErrors: errors show the beginning of what the template has, not all of it.
func TestShortErrors(t *testing.T) {
	for _, source := range []string{
		"{{ N.a }}", "{{ a N }}", "{{ N 'N' }}", "{{ a.'N' }}", "{{ | 'N' }}", "{% N %}", "{{ a | N }}", "{{ a is N }}",
		"{% set N.N = 1 %}", "{% macro N() %}{% endmacro %}{{ N(1) }}", "{{ ['a'] | map('N') }}", "{{ 1e9N }}",
		"{{ ['a'] | select('N') }}", "{% set 'N' = 1 %}", "{{ a[1:2:3:N] }}", "{{ (N }}", "{{ 9N }}", `{{ "\x N" }}`,
		"{{ 'N' - 1 }}", "{{ 'N'() }}", "{{ N() }}",
	} {
		for _, n := range []string{"n", "9"} {
			_, err := rendered(strings.ReplaceAll(source, "N", strings.Repeat(n, 5000)), nil)
			if err != nil {
				assert.Less(t, len(err.Error()), 200, "%s: %.300s", source, err)
			}
		}
		_, err := rendered(strings.ReplaceAll(source, "N", strings.Repeat("n", 5000)), nil)
		assert.Error(t, err, source)
	}
}

// TestLargeChats: a long text, and many messages, are within the limits.
func TestLargeChats(t *testing.T) {
	tmpl, err := Parse(readCases(t).Thinks)
	require.NoError(t, err)
	message := func(role, content string) any { return Object{{"role", role}, {"content", content}} }
	_, err = tmpl.Render(Object{{"messages", []any{message("user", strings.Repeat("a\n|", 3<<20))}}})
	require.NoError(t, err)
	var many []any
	for range 2000 {
		many = append(many, message("user", ""), message("assistant", ""))
	}
	_, err = tmpl.Render(Object{{"messages", many}})
	require.NoError(t, err)
	tool := json.RawMessage(`"` + strings.Repeat("a|", 3<<20) + `"`)
	_, err = tmpl.Render(Object{{"messages", many[:1]}, {"tools", []any{tool}}})
	require.NoError(t, err)
}

// FuzzRender: no template panics, and each ends.
func FuzzRender(f *testing.F) {
	c := readCases(f)
	f.Add(c.Thinks)
	for _, one := range c.Cases {
		f.Add(one.Template)
	}
	for _, source := range hostile {
		f.Add(source[:min(len(source), 2000)])
	}
	values := append(Object(c.Values), Field{"messages", []any{
		Object{{"role", "user"}, {"content", "<think>x</think>"}}, Object{{"role", "assistant"}, {"content", "y"}},
	}}, Field{"tools", []any{json.RawMessage(`{"a": [1, {"b": "é"}]}`)}})
	f.Fuzz(func(t *testing.T, source string) {
		got, err := rendered(source, values)
		if err == nil {
			require.Len(t, got.Given, len(got.String))
		}
	})
}

func BenchmarkRender(b *testing.B) {
	c := readCases(b)
	tmpl, err := Parse(c.Thinks)
	require.NoError(b, err)
	values := Object(c.Cases[len(c.Cases)-1].Values)
	for b.Loop() {
		if _, err := tmpl.Render(values); err != nil {
			b.Fatal(err)
		}
	}
}
