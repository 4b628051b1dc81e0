package regular

// Format returns a pattern for strings of a format of JSON schema. It may match fewer strings than the format allows.
// known is false for an unknown format.
func Format(name string) (pattern string, known bool) {
	pattern, known = formats[name]
	return pattern, known
}

// formats are all formats of draft 2020-12, as patterns.
var formats = map[string]string{
	"date":                  `^` + date + `$`,
	"time":                  `^` + clock + `$`,
	"date-time":             `^` + date + `T` + clock + `$`,
	"duration":              `^P(` + dateSpan + `(T` + timeSpan + `)?|T` + timeSpan + `|[0-9]{1,9}W)$`,
	"uuid":                  `^[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}$`,
	"email":                 `^` + email + `$`,
	"idn-email":             `^` + email + `$`,
	"hostname":              `^` + host + `$`,
	"idn-hostname":          `^` + host + `$`,
	"ipv4":                  `^` + ipv4 + `$`,
	"ipv6":                  `^` + ipv6 + `$`,
	"uri":                   `^` + uri + `$`,
	"iri":                   `^` + uri + `$`,
	"uri-reference":         `^(` + uri + `|` + relative + `)$`,
	"iri-reference":         `^(` + uri + `|` + relative + `)$`,
	"uri-template":          `^` + template + `$`,
	"json-pointer":          `^` + pointer + `$`,
	"relative-json-pointer": `^(0|[1-9][0-9]{0,9})(#|` + pointer + `)$`,
	"regex":                 `^\^?((` + atom + `|\((\?:)?` + atom + `+(\|` + atom + `+)*\))[*+?]?)*\$?$`,
}

const (
	// RFC 3339: from the year 1000 on, without leap seconds.
	date = `([1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|` +
		`02-(0[1-9]|1[0-9]|2[0-8]))|` + leap + `-02-29)`
	leap     = `([1-9][0-9](0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26])00)`
	clock    = `([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])`
	timeSpan = `([0-9]{1,9}H([0-9]{1,9}M([0-9]{1,9}S)?)?|[0-9]{1,9}M([0-9]{1,9}S)?|[0-9]{1,9}S)`
	dateSpan = `([0-9]{1,9}Y([0-9]{1,9}M([0-9]{1,9}D)?)?|[0-9]{1,9}M([0-9]{1,9}D)?|[0-9]{1,9}D)`

	// RFC 1123: names of up to 245 of the 253 characters, and RFC 5321: local parts of up to 62 of the 64. Labels
	// such as xn--a, with -- as third and fourth character, are of names that are not ASCII.
	label = `[A-Za-z0-9]([A-Za-z0-9]|[A-Za-z0-9-][A-Za-z0-9]([A-Za-z0-9-]{0,36}[A-Za-z0-9])?|` +
		`[A-Za-z0-9-]-[A-Za-z0-9]([A-Za-z0-9-]{0,35}[A-Za-z0-9])?)?`
	host  = label + `(\.` + label + `){0,5}`
	word  = `[A-Za-z0-9_+'&-]`
	email = `(` + word + `{1,62}|` + word + `{1,20}(\.` + word + `{1,20}){1,2})@` + host

	octet = `(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])`
	ipv4  = octet + `(\.` + octet + `){3}`
	// RFC 4291, without addresses of version 4 within
	hex  = `[0-9A-Fa-f]{1,4}`
	ipv6 = `((` + hex + `:){7}` + hex + `|(` + hex + `:){1,7}:|(` + hex + `:){1,6}:` + hex +
		`|(` + hex + `:){1,5}(:` + hex + `){1,2}|(` + hex + `:){1,4}(:` + hex + `){1,3}|(` + hex + `:){1,3}(:` + hex +
		`){1,4}|(` + hex + `:){1,2}(:` + hex + `){1,5}|` + hex + `:(:` + hex + `){1,6}|:((:` + hex + `){1,7}|:))`

	// RFC 3986, without addresses of version 6
	unreserved = `([A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})`
	char       = `([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})`
	plainChar  = `([A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})` // of a first segment, without a colon
	authority  = `//([A-Za-z0-9._~-]+(:[A-Za-z0-9._~-]*)?@)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,4})?(/` +
		char + `*)*`
	rootless = char + `+(/` + char + `*)*`
	suffix   = `(\?(` + char + `|[/?])*)?(#(` + char + `|[/?])*)?`
	uri      = `[A-Za-z][A-Za-z0-9+.-]*:(` + authority + `|/?` + rootless + `|/)` + suffix
	relative = `(` + authority + `|/(` + rootless + `)?|` + plainChar + `+(/` + char + `*)*)?` + suffix

	// RFC 6570, of paths
	variable = `\{[+#./;?&]?[A-Za-z0-9_]+(,[A-Za-z0-9_]+)*\}`
	template = `([A-Za-z][A-Za-z0-9+.-]*://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)?(/(` + unreserved + `|` + variable +
		`)*)*(\?(` + unreserved + `|` + variable + `|[=&])*)?`

	pointer = `(/([^~/]|~[01])*)*` // RFC 6901
	// a regular expression, as far as it is valid in every dialect
	atom = `([A-Za-z0-9_/@:,;=!#%&~ -]|\.|\\[dDwWsS.\\/+*?()^$]|\[\^?(A-Z|a-z|0-9|[A-Za-z0-9_./ @:])+\])`
)
