"""Writes cases.json: small templates, and two in the manner of models that think, with what jinja2 renders.

    python3 -m venv VENV && VENV/bin/pip install jinja2==3.1.6
    VENV/bin/python cases.py > cases.json

A case whose template or values jinja2 refuses has the field "error" in place of the text. The environment is that of
transformers: trim_blocks, lstrip_blocks, loop controls, tojson by json.dumps, no changes of values.
"""

import itertools
import json
import random

import jinja2
import jinja2.ext
import jinja2.sandbox

VALUES = {
    "none": None, "yes": True, "no": False, "n": 7, "half": 2.5, "text": "  Ein Fisch\nschwimmt, ölig.\t", "empty": "",
    "marked": "<think>\nhm\n</think>\n\nanswer", "list": [3, 1, 2], "names": ["b", "A", "c", "a", "B"], "void": [],
    "object": {"zeta": 1, "alpha": {"b": [1, "x", None, True]}, "items": "own", "key": "q\"'\\\n\u0001<&>é🐟"},
    "people": [{"name": "Ann", "age": 30, "ok": True}, {"name": "bob", "age": 4}, {"name": "Cy", "age": 30, "ok": False}],
    "tools": [{"function": {"name": "f", "n": 2}}, {"function": {"name": "a", "n": 1}}],
    "odd": "a\u00a0b\a\f\r\nq\u2028r",
}

EXPRESSIONS = """
1 + 2 * 3 ** 2 - 4 // 3 % 2
-7 // 2 ~ '|' ~ -7 % 3 ~ '|' ~ 7 / 2 ~ '|' ~ 2 ** 3 ~ '|' ~ 2 ** -1 ~ '|' ~ 6 / 3
(1.5 + 1) ~ '|' ~ 1e3 ~ '|' ~ 1e16 ~ '|' ~ 0.00001 ~ '|' ~ 1_000
(1, 2) ~ (1,) ~ () ~ [1, 'a', none, true, 1.0, "it's", 'say "x"', 'both \\'"']
{'a': 1, "b": [none]} ~ {}
'a' 'b' "\\n\\t\\\\\\'\\x41\\u00e9\\q"
text[0] ~ text[-1] ~ text[2:5] ~ text[::-1] ~ text[-3:] ~ text[:3] ~ text[1:9:3] ~ text[9:1:-2] ~ text[3:-99:-1] ~ list[-99:2]
list[::-1] ~ list[1:] ~ list[-1] ~ list[5] ~ list[-9] ~ list[:-1] ~ list[5:] ~ (1, 2, 3)[::-1]
text.strip() ~ '|' ~ text.lstrip() ~ '|' ~ text.rstrip() ~ '|' ~ 'xxaxx'.strip('x') ~ '|' ~ 'abcab'.lstrip('ab')
marked.split('</think>')[-1].lstrip('\\n') ~ '|' ~ marked.split('</think>')[0].rstrip('\\n').split('<think>')[-1]
'a,b,,c'.split(',') ~ 'a  b c '.split() ~ ''.split() ~ ''.split(',') ~ 'a,b,c'.split(',', 1) ~ 'a b c'.split(none, 1)
'a,b,c'.rsplit(',', 1) ~ 'a\\nb\\n'.splitlines() ~ ''.splitlines()
text.startswith('  Ein') ~ text.endswith('x') ~ text.startswith(('a', ' ')) ~ ''.startswith('')
'straBe Über iPad'.upper() ~ 'ÄB'.lower() ~ 'hello wORLD it'.title() ~ 'hELLO w'.capitalize() ~ ''.title()
'aXbX'.replace('X', 'yy') ~ 'abc'.find('c') ~ 'éa'.find('a') ~ 'abc'.find('z') ~ 'aba'.rfind('a') ~ 'abab'.count('ab')
'-'.join(['a', 'b']) ~ '12'.isdigit() ~ ''.isdigit() ~ 'a' * 3 ~ 'ab' * 0 ~ 'ab' * -1
1 == 1.0 and true == 1 and 'a' != 'b' and none == none and [1, 2] == [1, 2] and {'a': 1} == {'a': 1}
(1 <= 1) ~ (2 <= 1) ~ (1 > 1) ~ (2 > 1) ~ (1 < 1) ~ (1 >= 1) ~ (1 >= 2) ~ ('a' <= 'a') ~ ([1] < [1, 0]) ~ ([2] > [1, 3])
([1] == [1, 2]) ~ ([1, 2] == [1, 3]) ~ ({'a': 1} == {'a': 2}) ~ ({'a': 1} == {'b': 1}) ~ ({'a': 1} == {}) ~ ({'a': 1} == {'a': 1, 'b': 2}) ~ ('1' == 1) ~ (none == 0)
(missing == nothing) ~ (missing == none) ~ (missing == '') ~ ('x' in missing) ~ (0 == no) ~ ([] == ()) ~ ({'a': [1.0]} == {'a': [true]})
({} or 'a') ~ (0.0 or 'b') ~ (() or 'c') ~ (half and 'd') ~ (namespace() and 'e') ~ (0 and 'f') ~ ({'g': 0} and 'g')
(half + 1) ~ '|' ~ half * 2 ~ '|' ~ -half ~ '|' ~ half // 1 ~ half | int ~ half | round ~ [half] ~ (half is float) ~ (half is integer) ~ half | tojson
1 < 2 and 'a' < 'b' and 2 >= 2 and not 1 > 2 and [1, 2] < [1, 3] and (1,) != [1]
('Ein' in text) ~ (3 in list) ~ ('zeta' in object) ~ ('x' not in 'abc') ~ (9 not in list) ~ (none in list)
yes and n or empty
empty or none or 'last'
not yes ~ 'x'
'a' if yes else 'b'
('a' if no) ~ ('a' if no else 'b' if no else 'c')
missing
missing is defined ~ missing is undefined ~ object.nothing is defined ~ object['zeta'] is defined ~ none is defined
none is none ~ n is number ~ yes is number ~ n is integer ~ yes is integer ~ 1.0 is float ~ yes is boolean ~ n is not none
text is string ~ list is string ~ object is mapping ~ list is sequence ~ text is iterable ~ n is iterable ~ list is mapping
yes is true ~ no is false ~ n is true ~ 4 is even ~ 4 is odd ~ 6 is divisibleby 3 ~ 3 is eq 3 ~ 3 is in [1, 3] ~ 3 is gt(2)
object.alpha.b[1] ~ object['alpha']['b'][0] ~ object.get('zeta') ~ object.get('none') ~ object.get('none', 'd')
object.items is string ~ object['items'] ~ object.keys() | list ~ object.values() | length
object | tojson
object | tojson(indent=2)
void | tojson(indent=2) ~ {} | tojson(indent=4) ~ [[], {'a': []}] | tojson(indent=1)
object | tojson(separators=(',', ':'), sort_keys=true)
object.key | tojson(ensure_ascii=true)
'a\x7f~' | tojson(ensure_ascii=true) ~ 'x' | float ~ '' | float ~ 'x' | float(none) ~ '2.9' | int ~ -2.9 | int
[1, 1.5, true, none, 'é'] | tojson
text | length ~ list | length ~ object | count ~ missing | length
missing | default('d') ~ none | default('d') ~ empty | default('d', true) ~ no | d('x', boolean=true)
text | trim ~ '|' ~ 'x' | upper ~ 'Xy' | lower ~ 'ab cd' | title ~ 'ab' | capitalize ~ 'aa' | replace('a', 'b')
{'k': 1, 'l': 2} | first ~ {'k': 1, 'l': 2} | last ~ {} | first ~ 'äb' | list ~ {'k': 1} | list ~ {'k': 1, 'l': 2} | join('-') ~ [missing, none]
list | first ~ list | last ~ void | first ~ 'abc' | first ~ 'abc' | last
list | join(',') ~ people | join(', ', attribute='name') ~ [1, none] | join ~ 'abc' | join('-')
list | sort ~ list | sort(reverse=true) ~ names | sort ~ names | sort(case_sensitive=true) ~ (people | sort(attribute='age') | map(attribute='name') | list)
{'b': 1, 'A': 2} | dictsort(true) ~ {'b': 1, 'A': 2} | dictsort(false, 'key', true) ~ {'b': 1, 'A': 2} | dictsort(by='value')
{'b': 1, 'A': 2, 'c': 0} | dictsort(false, 'value', true) ~ {'b': 1, 'A': 2} | dictsort(reverse=true) ~ {'b': 1, 'A': 2} | dictsort(false, 'key') ~ names | unique(true) | list
names | sort(true) ~ names | sort(false, true) ~ people | sort(true, false, 'age') | map(attribute='age') | list
people | join(', ', 'name') ~ people | join(attribute='name') ~ list | join(d='-') ~ names | map('default', 'd') | list
'aaa'.replace('a', 'b', 2) ~ 'aaa' | replace('a', 'b', 1) ~ 'aaa' | replace('a', 'b', none) ~ 'aaa' | replace(old='a', new='c')
'xxaxx'.strip('x') ~ object.get('x', 4) ~ 'a-b-c'.split('-', 1) ~ 'a-b-c'.rsplit('-', 1) ~ 'a\\nb' | indent(3, true) ~ 'x' | d('y', true)
'x' | int(3) ~ 'x' | int(default=4) ~ 'x' | float(2.5) ~ 2.567 | round(2) ~ {'b': 'é', 'a': 2} | tojson(true, 1, [';', '='], true)
object | items | list | length ~ {'b': 1, 'A': 2} | dictsort ~ {'b': 1, 'A': 2} | items | list
list | reverse | list ~ 'abc' | reverse ~ ['a', 'A', 'b', 'a'] | unique | list
'12' | int ~ '1x' | int ~ 'x' | int(5) ~ 3.9 | int ~ '1.5' | float ~ -3 | abs ~ 2.5 | round ~ 3.14159 | round(2) ~ yes | int
names | map('upper') | join ~ people | map(attribute='age') | list
people | selectattr('ok') | map(attribute='name') | list ~ people | rejectattr('ok') | list | length
people | selectattr('age', 'equalto', 30) | map(attribute='name') | join('+') ~ people | selectattr('ok', 'defined') | list | length
[0, 1, '', 'x', none] | select | list ~ [0, 1, none] | reject('none') | list ~ [1, 'a'] | select('string') | list
'a\\nb\\n\\nc' | indent(2) ~ 'a\\nb' | indent(1, true) ~ none | string ~ 5 | string ~ object | string
range(3) | list ~ range(1, 8, 3) | list ~ range(3, 0, -1) | list ~ range(0) | list
dict(a=1, b='x') ~ namespace(a=1).a ~ namespace(a=1).b is defined
list is callable ~ range is callable
missing.field
missing['field']
missing + 'x'
none + 'x'
'x' + 1
1 / 0
none | length
none()
raise_exception('no')
'x' < 1
object.zeta.more
text | nosuchfilter
text is nosuchtest
[1, 2
text.append('x')
''.__class__.__mro__
"\\N{BULLET}"[0:0]
'abc'[0].upper() ~ 'abc'[1:] | upper ~ ('ab' ~ 'c') | length
3 | string + 'x'
- 3 | abs
not 'a' in 'abc'
[list, object] | length
true and false or true
1 if 0 else 2 if 0 else 3
list.0 ~ people.1.name
list[:9] ~ list[9::-1] ~ 'abc'[1:9] ~ 'abc'[-9:2] ~ list[1:9:2] ~ range(1, 3, -1) | list ~ range(3, 1) | list
(no + 1) ~ (yes + 1) ~ (no == 0) ~ 1 + 1.0 ~ '|' ~ 1.0 + 1 ~ '|' ~ 2 * 2.0 ~ '|' ~ 7 // 2.0 ~ '|' ~ n * 1.0 ~ '|' ~ n * 2
[1] < 'a'
'a' < [1]
[1] | select('eq') | list
[1, 2] + (3,)
3 | abs ~ 0 | abs ~ -1.5 | abs
1,
tools | map(attribute='function.name') | join(', ') ~ tools | selectattr('function.name', 'equalto', 'f') | list | length
tools | sort(attribute='function.n') | join(attribute='function.name')
tools | map(attribute='function.x.y') | list
[['b', 2], ['a', 1]] | sort(attribute=1) | map(attribute=0) | list ~ [{'a': [5, 6]}] | map(attribute='a.1') | list
people | map(attribute='ok', default='?') | list ~ [{'a': {'b': 2}}, {}] | map(attribute='a.b', default='-') | list
[{'a': 'X'}, {'a': 'x'}] | unique(attribute='a') | list ~ [{'a': 'X'}, {'a': 'x'}] | unique(true, 'a') | list | length
people | selectattr('age', 'gt', 10) | list | length ~ people | rejectattr('age', '<=', 10) | map(attribute='name') | list
list | select('lessthan', 3) | list ~ list | select('divisibleby', 3) | list ~ list | reject('>=', 2) | list
1 is sameas true ~ true is sameas true ~ 0 is sameas false ~ none is sameas none ~ 1 is sameas 1 ~ 2 is greaterthan 1
odd ~ [odd] ~ ['\\x7f', '\\u00ad\\u200b', '\\U000e0001', '\\t']
odd.splitlines() ~ 'a\\r\\nb\\n'.splitlines(true) ~ 'a\\n\\n'.splitlines() ~ 'a\\x1cb\\x85c\\u2029'.splitlines() ~ '\\r\\r'.splitlines()
"they're o'neil-b (c) {d} <e> [f] g_h ÉCOLE 1x" | title ~ "it's".title() ~ '-' | title
'3.7' | int ~ '-1.5e1' | int ~ 'nan' | int(5) ~ 'inf' | int(6) ~ ' 8 ' | int ~ '9x' | int(7)
0.15 | round(1) ~ '|' ~ 2.675 | round(2) ~ '|' ~ 7 | round ~ '|' ~ 25 | round(-1) ~ '|' ~ 25.0 | round(-1) ~ '|' ~ 1e300 | round(2)
7.9 | round(0, 'floor') ~ 7.11 | round(1, method='ceil') ~ -7.15 | round(1, 'floor') ~ 7 | round(1, 'ceil') ~ yes | round
1.5 | round(0, 'up')
'\\n\\nx' | indent(2, true) ~ 'x\\n\\ny' | indent(2, blank=true) ~ 'x\\ny' | indent('> ') ~ 'a\\r\\nb\\n' | indent(1) ~ '' | indent(1, true)
dict(b=1, a=2) ~ dict({'z': 0}, y=1, b=2)
dict(a=1, a=2)
[']', ')', 'if', '|', 'is', 'not', '}}', '%}'] ~ {'}': ':', ':': ','} ~ (')' if 'else' else 'if') ~ '-' 'not' '[' ~ ('.', '(', ')')
{1: 'a', 2.5: 'b', true: 'c', none: 'd', 'k': 0} ~ {1: 'a'}[1] ~ {1: 'a'}[1.0] ~ {1: 'a'}.get(true) ~ {1: 'a'}.get('1', '-')
(1 in {1: 2}) ~ ('1' in {1: 2}) ~ (missing in {1: 2}) ~ ({}[missing] is defined) ~ ({1: 2}[[1]] is defined) ~ ({1: 2} == {1.0: 2}) ~ ({none: 1} == {0: 1})
{1: 'a', 2.5: 'b', none: 'd', 'k': {true: [{0: 1}]}} | tojson ~ {2: 'b', 1: 'a'} | tojson(sort_keys=true) ~ {2: 'b', 1: 'a'} | dictsort ~ {3: 4} | list
{2: 1, 'a': 2} | tojson(sort_keys=true)
{[1]: 2}
[1] in {1: 2}
{'1': 2}.get([1])
dict({1: 'a'}, b=2) ~ namespace({'a': 1}, b=2).a ~ {1: 'a', 2: 'b'} | items | list ~ {1: 'a', 2: 'b'} | join('-')
('yes' if void | select else 'no') ~ ((names | map('upper'))[0] is defined) ~ (names | map('upper') is iterable) ~ (names | map('upper') is sequence)
none | map('upper') | list ~ 0 | select | list ~ missing | selectattr('x') | list ~ '' | rejectattr('x') | list ~ none | map(attribute='x') | list
5 | map('upper') | list
missing | items | list ~ ('a' in names | map('upper')) ~ ('A' in names | map('upper')) ~ names | map('upper') | first ~ names | map('upper') | sort ~ names | reverse | map('upper') | list
(names | map('upper'))[1:]
missing[1:]
names | map('upper') + ['x']
'abc' | reverse ~ (('yes' if void | reverse else 'no') if (list | reverse)[0] is not defined else 'a list') ~ {'a': 1, 'b': 2} | reverse | list
{'a': 1}.keys() ~ {'a': 1}.values() ~ {'a': 1}.items() ~ {}.keys() ~ ('yes' if {}.items() else 'no') ~ ({'a': 1}.items()[0] is defined) ~ ({'a': 1}.keys() is sequence) ~ ('a' in {'a': 1}.keys())
{'a': 1}.keys() + ['b']
{'a': 1}.items()[:1]
none[0] is defined ~ n[0] is defined ~ 'abc'['x'] is defined ~ 'abc'[none] is defined ~ list[1.0] is defined ~ list[missing] is defined ~ list['x'] is defined
[3, 1, 2] | min ~ [3, 1, 2] | max ~ ['b', 'A'] | min ~ ['b', 'A'] | max(case_sensitive=true) ~ ['a', 'A'] | max ~ void | min ~ people | max(attribute='age') ~ people | min(attribute='age')
list | sum ~ [0.5, 1] | sum ~ void | sum ~ people | sum(attribute='age') ~ list | sum(start=10) ~ [[1], [2]] | sum(start=[])
[1, 'a'] | min
['a'] | sum
1 < 2 < 3 ~ '' == '' ~ 1
(1 < 2 < 3) ~ (3 > 2 > 2) ~ (1 < 3 > 2 != 4) ~ (1 in [1] not in [[2]]) ~ (1 == 1.0 == yes) ~ (3 > 4 > none)
'{} {}'.format(1, 'a') ~ '{1}{0}{1}'.format('x', 'y') ~ '{a} {b!r} {c[0]} {d[k]}'.format(a=1.5, b='q', c=[none], d={'k': yes}) ~ '{{{}}}'.format('z')
'<{:>5}|{:<5}|{:^5}|{:*^6}|{:5}|{:.2}|{:5.1}>'.format('ab', 'ab', 'ab', 'ab', 'ab', 'abc', 'abc')
'<{:5d}|{:<5}|{:05d}|{:+d}|{: d}|{:,}|{:_}|{:x}|{:#X}|{:o}|{:b}|{:c}|{:=+6}|{:-d}>'.format(42, 42, -42, 42, 42, 1234567, 1234567, 255, 255, 8, 5, 65, 42, -3)
'<{:f}|{:.2f}|{:10.3f}|{:e}|{:.1e}|{:g}|{:g}|{:%}|{:.1%}|{:,.2f}|{}|{:>6}>'.format(2.5, 2.675, -1.5, 12345.678, 0.00012, 0.0001, 1e20, 0.5, 0.123, 9876543.21, 1e16, 1.5)
'{:s}{!s:>3}{!r}'.format('a', 1, [1]) ~ '{0.zeta}'.format(object) ~ '{:é>3}'.format('a') ~ '{:>3}'.format(yes) ~ '{}'.format(none)
'{}'.format()
'{a}'.format(b=1)
'{'.format(1)
'}'.format(1)
'{:q}'.format(1)
'{:>3}'.format(none)
'{:d}'.format('a')
'{:>3}'.format([1])
'{:d}'.format(1.5)
'{!x}'.format(1)
'%s-%s' | format('a', 1) ~ '%s' % 'x' ~ '%s %%' % 1.5 ~ '%(a)s %(b)d' % {'a': 1, 'b': 2} ~ '%(a)s' | format(a='k') ~ '%r' % 'q' ~ '%s' % none ~ 'a' % [] ~ '%s' % [1, 2] ~ '%s' % {'a': 1}
'<%5d|%-5d|%05d|%+d|% d|%x|%#x|%X|%o|%c|%i|%5s|%-5s|%.2s|%u>' % (42, 42, -42, 42, 42, 255, 255, 255, 8, 65, 3.9, 'ab', 'ab', 'abc', 7)
'<%f|%.2f|%10.3f|%e|%g|%.3g|%-8.1f|%08.2f>' % (2.5, 2.675, -1.5, 12345.678, 0.0001, 1234.5, 2.25, -3.14159)
'%s' % ()
'%s' % (1, 2)
'%d' % 'a'
'%y' % 1
'%(a)s' % 1
'%(a' % {'a': 1}
'%(b)s' % {'a': 1}
'a' % 1
'xay'.removeprefix('x') ~ 'xay'.removesuffix('y') ~ 'a'.removeprefix('b') ~ 'a'.removesuffix('b') ~ 'a=b=c'.partition('=') ~ 'a=b=c'.rpartition('=') ~ 'ab'.partition('=') ~ 'ab'.rpartition('=')
'ab'.center(5) ~ '|' ~ 'abc'.center(6, '*') ~ '|' ~ 'abc'.center(2) ~ '|' ~ 'a'.ljust(3) ~ '|' ~ 'a'.rjust(3, '.') ~ '|' ~ '42'.zfill(5) ~ '-4'.zfill(4) ~ '+4'.zfill(1) ~ ''.zfill(2) ~ '|' ~ 'a' | center(4) ~ '|'
'ab'.isalpha() ~ 'a1'.isalpha() ~ 'a1'.isalnum() ~ 'a-'.isalnum() ~ ' \\t'.isspace() ~ ''.isspace() ~ 'aB'.islower() ~ 'a1'.islower() ~ 'A1'.isupper() ~ '1'.isupper() ~ '12'.isdecimal() ~ '1.'.isnumeric() ~ 'ab' is lower ~ 'AB' is upper ~ 'aB' is upper
list.index(1) ~ list.count(3) ~ [1, 1.0, 'x'].count(1)
list.index(9)
'ab'.partition('')
'a'.center(3, 'xy')
'<a href="x">\\'&' | escape ~ '<b>' | e ~ '<' | safe | e
'<' | safe + '>' + 'x"' ~ ('a' + '<b>' | safe) ~ (('<' | safe + '&')[0:4] + '"') ~ ('<' | safe) * 2 + '&' ~ ('<a' | safe).upper() + '<'
'a b-c_d 1' | wordcount ~ '' | wordcount
text.nope is defined
text.nope()
missing()
n()
'x'.join(*[['a', 'b']]) ~ dict(b=2, **{'a': 1}) ~ dict(*[{'z': 1}], **{'a': 2}) ~ range(*[1, 4]) | list
dict(a=1, **{'a': 2})
dict(**[1])
dict(**{1: 2})
list(*5)
yes | abs ~ no | abs ~ -2 | abs ~ 1.5 is odd ~ 3.0 is odd ~ -3 is odd ~ 2.0 is even ~ 0.5 is even ~ missing is callable
[1, 2] * 2 ~ 2 * (1,) ~ 3 * 'ab' ~ yes * 'x' ~ -1 * [1] ~ list * 0 ~ n * '-'
[1] * 1.5
('<' | safe) | list ~ (('<a' | safe)[0] + '<')
""".strip("\n").split("\n")

TEMPLATES = [
    "{% for x in list %}{% macro f() %}{% continue %}{% endmacro %}{{ f() }}{% endfor %}",
    "{% for a in [[1] + [2] + [3], 'a\\nb\\nc\\n'.splitlines(), names[:3], 'a b c'.split(), object.values() | list, list | sort] %}"
    "{% set b, c = a + ['b'], a + ['c'] %}{{ a }}{{ b }}{{ c }}{{ b | reverse | list }}{{ b }}{% endfor %}",
    "a\n{% if yes %}\n  b\n  {% else %}\nc\n{% endif %}\nd\n",
    "a  {%- if yes -%}  b  {%- endif -%}  c\n\n",
    "  {% if yes %}x{% endif %}  \n  {%+ if yes %}y{% endif +%}\n  {{ n }}  \n",
    "{# note #}\na{# b #}\n  {# c #}\nd {#- e -#} f\n",
    "{% raw %}{{ n }}{% if %}{% endraw %}\nx{%- raw -%} {{ y }} {%- endraw %} z",
    "a\n  {% raw %}\n  b\n  {% endraw %}\nc\n  {% raw -%}  d\n  {%+ endraw +%}\ne {% raw %}f  {% endraw %}g",
    "{{- n -}}\n  {{ n }}\n{{ n -}}\n",
    "x\n{{ n }}\n\n",
    "\r\na\r{% if yes %}\r\nb{% endif %}\n",
    "{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}"
    "{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }};{% endfor %}",
    "{% for x in void %}{% else %}none{% endfor %}{% for k in object %}{{ k }}{% endfor %}{% for c in 'äb' %}{{ c }},{% endfor %}",
    "{% for k, v in object.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in object | dictsort %}{{ k }}{% endfor %}",
    "{% for p in people if p.age == 30 %}{{ loop.index }}/{{ loop.length }}{{ p.name }}{% endfor %}",
    "{% for x in list %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if loop.last %}{% break %}{% endif %}{% endfor %}",
    "{% for x in list %}{% for y in names %}{% if y == 'c' %}{% break %}{% endif %}{{ x }}{{ y }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% set x = 1 %}{% for i in list %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% if yes %}{% set x = 9 %}{% endif %}{{ x }}",
    "{% set ns = namespace(n=0, found=false) %}{% for i in list %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}{{ ns.found }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = list[:2] %}{{ c }}{{ d }}{% set t = 1, %}{{ t }}",
    "{% set x %}a{{ n }}{% for i in list %}{{ i }}{% endfor %}{% endset %}[{{ x }}]{{ x | length }}",
    "{% macro f(a, b='d', c=a) %}({{ a }}{{ b }}{{ c }}{{ n }}){% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(b=3, a=4) }}{{ f() }}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}|{{ f(1) | upper }}",
    "{% macro outer() %}{% for i in list %}{{ inner(i) }}{% endfor %}{% endmacro %}{% macro inner(i) %}<{{ i }}>{% endmacro %}{{ outer() }}",
    "{% if no %}a{% elif empty %}b{% elif n %}c{% else %}d{% endif %}{% if no %}{% elif no %}{% endif %}",
    "{% generation %}a{{ n }}{% endgeneration %}b",
    "{{ {'a': {'b': {}}}}}{{ '}}' }}{{ \"{%\" }}",
    "{% for x in list -%}\n  {{ x }}\n{%- endfor %}\n!",
    "{% set x = 'a' if no else 'b' %}{{ x }}{{ x ~ (1 if yes) }}",
    "{% for i in range(3) %}{% set last = i %}{% endfor %}{{ last is defined }}",
    "{% set a, z, A, Z, _ = 1, 2, 3, 4, 5 %}{{ a }}{{ z }}{{ A }}{{ Z }}{{ _ }}",
    "{% set o = {'b': 1, 'a': 2} %}{{ o | tojson(sort_keys=true) }}{{ o }}",
    "{% for x in list %}{% endfor %}{% break %}", "{% for x in list %}{% else %}{% continue %}{% endfor %}",
    "{{ n }}\n  {% if yes %}x{% endif %}\n", "{{ n }}  {% if yes %}\n{{ n }}  {% if yes %}x{% endif %}{% endif %}",
    "{{n}}{%if yes%}x{%endif%}{#c#}{%-if yes-%} y {%-endif%}", "{% for x of list %}{% endfor %}", "{{ [1 2] }}", "{{ {'a' 1} }}",
    "{{ dict(a=1 b=2) }}", "{% macro f a) %}{% endmacro %}", "{% macro f(a b) %}{% endmacro %}", "{{ 'abc'[0 2] }}",
    "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}", "{% nonsense %}", "{% if yes %}", "{% endif %}",
    "{% break %}", "{{ }}", "{{ 1", "{% for x in %}{% endfor %}", "{# open", "{% set 1 = 2 %}", "{{ 'open }}", "{{ a b }}",
    "{% for a, b in list %}{% endfor %}", "{% for a in n %}{% endfor %}", "{% set n.x = 1 %}", "{{ (1 }}", "{{ 1) }}",
    "{% set g = names | map('upper') %}{{ g | list }}{{ g | list }}{% if g %}true{% endif %}{% set h = names | select('in', ['a', 'b', 'c']) %}{{ h | first }}{{ h | list }}{{ h | first is defined }}",
    "{% set some = people | selectattr('missing') %}{% if some %}{% for p in some %}{{ p }}{% else %}none{% endfor %}{% endif %}{% for x in void | reverse %}{% else %}empty{% endfor %}",
    "{% macro f(a) %}[{{ a }}{{ caller('x', b=2) }}]{% endmacro %}{% call(c, b=1) f(n) %}<{{ c }}{{ b }}{{ n }}>{% endcall %}",
    "{% macro f() %}{{ caller() }}{{ caller() }}{% endmacro %}{% macro g(x) %}{% call f() %}{{ x }}{% for i in list %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}{% endcall %}{% endmacro %}{{ g('a') }}",
    "{% macro f(x) %}{{ x }}{{ caller() }}{% endmacro %}{% call f(f2 | default('d')) %}body{% endcall %}{% call f(x=names | first) %}{% endcall %}",
    "{% call n %}{% endcall %}", "{% call f() + 1 %}{% endcall %}", "{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}", "{% call nothing() %}{% endcall %}",
    "{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, z=4) }}{{ f(1) }}{{ f(*[5, 6], **{'y': 7}) }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(*['x'], **{'b': 'y'}) }}",
    "{% macro f(a) %}{{ a }}{% macro g() %}{{ varargs }}{% endmacro %}{{ g(2) }}{% endmacro %}{{ f(1) }}{{ f(1, 3) }}",
    "{% filter trim %}  {{ text }} {% endfilter %}|{% filter upper | replace('A', 'b') %}a{{ names[3] }}{% set n = 8 %}{{ n }}{% endfilter %}{{ n }}",
    "{% set x | trim | upper %}  a{{ n }} {% endset %}[{{ x }}]{% set y | indent(2) %}a\nb{% endset %}{{ y }}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% set n = 3 %}{{ n }}{% endwith %}{{ n }}{{ a is defined }}{% with %}x{% endwith %}{% with n = 2, m = n %}{{ m }}{% endwith %}",
    "{% for x in list %}{% with y = x %}{% if y == 1 %}{% continue %}{% endif %}{{ y }}{% endwith %}{% endfor %}",
    "{% for x in [{'n': 1, 'c': [{'n': 2, 'c': []}, {'n': 3, 'c': [{'n': 4}]}]}] recursive %}{{ x.n }}{{ loop.depth }}{{ loop.depth0 }}{% if x.c %}({{ loop(x.c) }}){% endif %}{% else %}-{% endfor %}",
    "{% for x in list %}{{ loop(x) }}{% endfor %}", "{% for x in [[1], []] if x recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}",
    "{% set d = {1: 'Mo', 2: 'Tu'} %}{% for k, v in d.items() %}{{ k + 1 }}{{ v }}{% endfor %}{% for k in d %}{{ d[k] }}{% endfor %}{{ d[3] is defined }}",
    "{% filter nothing %}x{% endfilter %}", "{% with a %}{% endwith %}", "{% with a = %}{% endwith %}",
    "{{ \"It's \"|safe + text + '<' }}{{ ('<' | safe) ~ '<' }}{% set s = '<' | safe %}{{ s + s }}{{ '<' + s.strip() }}{{ s.split('x')[0] + '<' }}{{ [s + '<'] }}",
]

# In the manner of models that think and call tools, with the constructs of their templates.
THINKS = """
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "Tools:\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\nCall them as {\\"name\\": <name>, \\"arguments\\": <args>}<|im_end|>\\n" }}
{%- elif messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(searching=true, asked=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set i = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.searching = false %}
        {%- set ns.asked = i %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set thought = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thought = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.asked and (loop.last or thought) %}
            {{- '<|im_start|>assistant\\n<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + content }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {%- if not loop.first or content %}
                {{- '\\n' }}
            {%- endif %}
            {%- if call.function %}
                {%- set call = call.function %}
            {%- endif %}
            {{- '<tool_call>\\n{"name": "' ~ call.name ~ '", "arguments": ' }}
            {{- call.arguments if call.arguments is string else call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or messages[loop.index0 - 1].role != "tool" %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != "tool" %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

# Calls in tags, contents through a macro, and no thought unless it is wanted, as Qwen3.5 does.
TAGS = """
{%- set seen = namespace(images=0, searching=true, asked=0) %}
{%- macro text_of(content, counts, of_system=false) %}
    {%- if content is string %}
        {{- content }}
    {%- elif content is iterable and content is not mapping %}
        {%- for part in content %}
            {%- if part.type == 'image' or 'image_url' in part %}
                {%- if of_system %}
                    {{- raise_exception('An image of the system.') }}
                {%- endif %}
                {%- set seen.images = seen.images + 1 if counts else seen.images %}
                {{- '[image ' ~ seen.images ~ ']' }}
            {%- elif 'text' in part %}
                {{- part.text }}
            {%- else %}
                {{- raise_exception('An unknown part.') }}
            {%- endif %}
        {%- endfor %}
    {%- elif content is not none and content is not undefined %}
        {{- raise_exception('An unknown content.') }}
    {%- endif %}
{%- endmacro %}
{%- set first = text_of(messages[0].content, false, true)|trim if messages[0].role == 'system' else '' %}
{%- if tools and tools is iterable and tools is not mapping %}
    {{- '<|im_start|>system\\nTools:\\n<tools>' }}
    {%- for tool in tools %}
        {{- "\\n" ~ (tool | tojson) }}
    {%- endfor %}
    {{- '\\n</tools>\\nCall them as <tool_call>\\n<function=name>\\n<parameter=key>\\nvalue\\n</parameter>\\n</function>\\n' }}
    {{- '</tool_call>' + ('\\n\\n' + first if first else '') + '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + first + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages[::-1] if seen.searching and message.role == 'user' %}
    {%- set content = text_of(message.content, false)|trim %}
    {%- if not(content.startswith('<tool_response>') and content.endswith('</tool_response>')) %}
        {%- set seen.searching = false %}
    {%- endif %}
{%- endfor %}
{%- if seen.searching %}
    {{- raise_exception('Nothing is asked.') }}
{%- endif %}
{%- for message in messages if message.role == 'user' %}
    {%- set seen.asked = seen.asked + 1 %}
{%- endfor %}
{%- set turns = namespace(asked=0) %}
{%- for message in messages %}
    {%- set content = text_of(message.content, true)|trim %}
    {%- if message.role == "system" %}
        {%- if not loop.first %}
            {{- raise_exception('A late message of the system.') }}
        {%- endif %}
    {%- elif message.role == "user" %}
        {%- set turns.asked = turns.asked + 1 %}
        {{- '<|im_start|>user\\n' + content + '<|im_end|>\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set thought = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thought = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if turns.asked == seen.asked %}
            {{- '<think>\\n' + thought|trim + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- content }}
        {%- for call in message.tool_calls or [] %}
            {%- if call.function is defined %}
                {%- set call = call.function %}
            {%- endif %}
            {{- '\\n' if not loop.first else '\\n\\n' if content|trim else '' }}
            {{- '<tool_call>\\n<function=' + call.name + '>\\n' }}
            {%- for key, value in call.arguments|items %}
                {%- set value = value | string if value is string else value | tojson | safe %}
                {{- '<parameter=' + key + '>\\n' }}
                {{- value }}
                {{- '\\n</parameter>\\n' }}
            {%- endfor %}
            {{- '</function>\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.previtem and loop.previtem.role != "tool" %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != "tool" %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- else %}
        {{- raise_exception('An unknown role.') }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n<think>\\n' }}
    {%- if enable_thinking is not defined or enable_thinking is false %}
        {{- '\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""


def chats(rnd):
    """Random chats: system turns, tools, calls, results, thoughts, with enable_thinking or without."""
    words = ["a", "Kiel\n", "\n\nwhy?", "<think>\nx\n</think>\n\ny", "öl 🐟", "<tool_response>\nq\n</tool_response>", ""]
    tool = {"type": "function", "function": {"name": "weather", "description": "\"<&>\" ö", "parameters": {
        "type": "object", "properties": {"town": {"type": "string"}, "days": {"maximum": 3}}, "required": ["town"]}}}
    for _ in range(40):
        messages = [{"role": "system", "content": rnd.choice(words)}] if rnd.random() < 0.4 else []
        while True:
            messages.append({"role": "user", "content": rnd.choice(words)})
            if rnd.random() < 0.3:
                break
            for last in (False, False, True):
                answer = {"role": "assistant", "content": rnd.choice(words)}
                if rnd.random() < 0.5:
                    answer["reasoning_content"] = rnd.choice(words)
                messages.append(answer)
                if last or rnd.random() < 0.5:
                    break
                calls = [{"town": rnd.choice(words), "days": [1, None]}, {}, "{broken"][:rnd.randrange(1, 4)]
                answer["tool_calls"] = [{"id": "c", "type": "function", "function": {
                    "name": "weather", "arguments": c}} for c in calls]
                messages += [{"role": "tool", "content": rnd.choice(words), "tool_call_id": "c"} for _ in calls]
            if rnd.random() < 0.2:
                break
        values = {"messages": messages, "add_generation_prompt": rnd.random() < 0.9}
        if rnd.random() < 0.5:
            values["tools"] = [tool] * rnd.randrange(1, 3)
        if rnd.random() < 0.6:
            values["enable_thinking"] = rnd.random() < 0.5
        yield values


def tagged_chats(rnd):
    """Chats with contents in parts or without any, and with arguments of all types."""
    values = [None, True, False, -7, 2.5, 1e16, "", "42", "x\ny", "<&>\"'", [], [1, {"a": None}], {"é": "ö"}]
    for chat in chats(rnd):
        for message in chat["messages"]:
            kind = rnd.random()
            if kind < 0.2:
                image = {"type": "image"} if kind < 0.03 else {"text": " b "}
                message["content"] = [{"type": "text", "text": message["content"]}, image]
            elif kind < 0.25:
                message["content"] = None
            for call in message.get("tool_calls", []):
                if rnd.random() < 0.95:
                    keys = rnd.sample(["town", "days", "b c", "items", "name"], rnd.randrange(4))
                    call["function"]["arguments"] = {key: rnd.choice(values) for key in keys}
        yield chat


class Generation(jinja2.ext.Extension):
    """{% generation %} of transformers, which renders its content."""
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def environment():
    def refuse(text):
        raise jinja2.TemplateError(text)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = refuse
    return env


def main():
    env, out = environment(), []
    cases = [("{{ " + e + " }}", VALUES) for e in EXPRESSIONS] + [(t, VALUES) for t in TEMPLATES]
    cases += [(THINKS, values) for values in chats(random.Random(1))]
    cases += [(TAGS, values) for values in itertools.islice(tagged_chats(random.Random(2)), 20)]
    for template, values in cases:
        case = {"template": template}
        if values is not VALUES:
            case = {"tags": template is TAGS, "values": values}
        try:
            case["text"] = env.from_string(template).render(**values)
        except Exception as e:
            case["error"] = str(e)
        out.append(case)
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in out)
    values, thinks, tags = (json.dumps(v, ensure_ascii=False) for v in (VALUES, THINKS, TAGS))
    print(f'{{"values": {values},\n"thinks": {thinks},\n"tags": {tags},\n"cases": [\n{lines}\n]}}')


main()
