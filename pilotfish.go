// Package pilotfish runs a small language model in a Go program, without cgo, and asks a large one, on another machine,
// for the few tokens that matter.
//
//	m, err := pilotfish.Open(path, pilotfish.Options{})
//	…
//	defer m.Close()
//	chat := m.NewChat(pilotfish.ChatOptions{})
//	for tok, err := range chat.Send(ctx, question, pilotfish.MaxTokens(8)) {
//		…
//		fmt.Print(tok.Text)
//	}
//
// A [Model] is one open file. Each [Chat] and [Session] holds a text and generates one answer at a time; several of
// them can generate at once and share the passes over the weights. With [Via] an answer also uses a large model: that
// of a gateway ([Model.Dial]), one in this process ([Model.Serve]), or any other [Cloud].
//
// All functions and methods are safe for concurrent use. A call after Close fails with [ErrClosed], and a second answer
// in a chat or session before the first is over fails with [ErrBusy]. When a context ends, the answer ends with its
// cause: errors.Is finds the cause, and context.Canceled or context.DeadlineExceeded.
//
// The exported names of this package and of those listed in docs/use/embedding.md are stable; the rest of the module
// may change.
package pilotfish

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/hub"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// Errors of use at the wrong time.
var (
	// ErrClosed is returned if the model, or an object made from it, was closed before or during the call.
	ErrClosed = engine.ErrClosed
	// ErrBusy is returned if a second answer is begun in a chat or session before the first is over.
	ErrBusy = engine.ErrBusy
	// ErrContext is returned for a text that is too long for the context of the model, or of the large model.
	ErrContext = engine.ErrContext
	// ErrChat is returned for a chat that the model's template refuses.
	ErrChat = tokenizer.ErrChat
	// ErrUnsupported says that a model lacks what a call needs: a chat template, or marks to fill gaps.
	ErrUnsupported = tokenizer.ErrUnsupported
)

// Options say how a model is run. The zero value works.
type Options struct {
	Backend   string // what runs the model: "cpu" or "metal"; "" means the CPU
	Threads   int    // workers on the CPU; 0 means as many as the Go runtime may use at once
	Context   int    // longest text in tokens, prompt and answer; 0 means 4096, or the model's limit if that is less
	KV        string // type of keys and values, "f16" or "f32"; "" means f32 if all weights of the model are
	HugePages string // whether weights move into huge pages: "auto", "on" or "off"; "" means auto
	Exact     bool   // the slow reference: activations, keys and values in float32, in plain Go on the CPU

	// Sessions, if not 0, is how many full sessions the memory is to hold: a Context of 0 then means the model's limit,
	// or if that is less, what fits into three quarters of the memory that the weights leave free, but at least 4096.
	Sessions int

	// Notice is told what makes the first answer wait, such as a GPU's compiler, in words for a user. nil means nobody.
	Notice func(string)

	// Drafter is the path or the name of a smaller model with the same tokens, which drafts the answers of this one:
	// the text is the same, and where drafts are accepted it comes sooner. Answers with a [Route] have no drafts. ""
	// means none.
	Drafter string
}

func (o Options) engineOptions() (engine.Options, error) {
	e := engine.Options{
		Threads: o.Threads, Context: o.Context, Sessions: o.Sessions, KV: engine.KVType(o.KV), Exact: o.Exact,
		HugePages: engine.HugePages(o.HugePages), Notice: o.Notice,
	}
	if o.Backend == "" {
		return e, nil
	}
	var err error
	e.Backend, err = engine.ParseBackend(o.Backend)
	return e, err
}

// Model is an open model file.
type Model struct {
	e       *engine.Engine
	drafter *engine.Engine // nil: there is none
	usual   Router         // of routes without one
}

// newModel makes the model of an engine, which it closes on an error, and opens its drafter.
func newModel(e *engine.Engine, o Options) (m *Model, err error) {
	m = &Model{e: e}
	if m.usual, err = NewRouter(RouterOptions{}); err == nil && o.Drafter != "" {
		err = m.openDrafter(o)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Model) openDrafter(o Options) error {
	path, _, err := hub.Locate(os.Getenv, o.Drafter)
	if err != nil {
		return fmt.Errorf("drafter: %w", err)
	}
	opt, err := o.engineOptions()
	if err != nil {
		return err
	}
	opt.Context, opt.Sessions = 0, 0 // of a longer text it reads the end
	if m.drafter, err = engine.Open(path, opt); err != nil {
		return fmt.Errorf("drafter: %w", err)
	}
	return m.e.Fit(m.drafter)
}

// Open maps a GGUF file and loads its weights. name is the path of the file (the first part of a split one), or the
// name of a model that `pilotfish pull` or another tool has fetched from the Hugging Face hub: OWNER/NAME,
// OWNER/NAME:QUANT or OWNER/NAME:FILE. An existing file takes precedence. Open downloads nothing. Errors name
// the file and the field.
func Open(name string, o Options) (*Model, error) {
	opt, err := o.engineOptions()
	if err != nil {
		return nil, err
	}
	path, _, err := hub.Locate(os.Getenv, name)
	if err != nil {
		return nil, err
	}
	e, err := engine.Open(path, opt)
	if err != nil {
		return nil, err
	}
	return newModel(e, o)
}

// Pull downloads the model that name names, as in [Open], from the Hugging Face hub, unless it is here, and returns its
// path. It goes to the folder of `pilotfish pull`, so that Open finds it. An interrupted download is resumed by the
// next call. progress, which may be nil, is called with bytes as they arrive. HF_ENDPOINT and HF_TOKEN have the same
// effect as for other programs.
func Pull(ctx context.Context, name string, progress func(done, total int64)) (path string, err error) {
	ref, err := hub.ParseRef(name)
	if err != nil {
		return "", err
	}
	dir, err := hub.DefaultDir(os.Getenv)
	if err != nil {
		return "", err
	}
	files, err := hub.Pull(ctx, ref, hub.Options{Dir: dir, Endpoint: os.Getenv("HF_ENDPOINT"),
		Token: os.Getenv("HF_TOKEN"), Progress: progress})
	if err != nil {
		return "", err
	}
	return files[0].Path, nil
}

// Load is like [Open] for the bytes of a file, which must not change before [Model.Close]. Errors use name for the
// file.
func Load(data []byte, name string, o Options) (*Model, error) {
	opt, err := o.engineOptions()
	if err != nil {
		return nil, err
	}
	f, err := gguf.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	e, err := engine.New(f, name, opt)
	if err != nil {
		return nil, err
	}
	return newModel(e, o)
}

// Close frees the resources of the model. It waits for the running forward call; an answer that is being generated then
// ends with [ErrClosed], and so does every later call. Close may be called from anywhere, also from within a loop over
// an answer, and more than once. Close the results of Dial and Serve before the model.
func (m *Model) Close() error {
	err := m.e.Close()
	if m.drafter != nil {
		err = errors.Join(err, m.drafter.Close())
	}
	return err
}

// Name returns the name of the model in its file; "" if it has none.
func (m *Model) Name() string { return m.e.Name() }

// File is the file of the model. It is closed with the model.
func (m *Model) File() *gguf.File { return m.e.File() }

// Fingerprint identifies a model: files with the same fingerprint have the same weights, vocabulary and metadata.
func (m *Model) Fingerprint() (string, error) { return m.e.Fingerprint() }

// Threads returns the number of CPU threads that compute, or that may compute if a GPU runs the model.
func (m *Model) Threads() int { return m.e.Threads() }

// Context returns the maximum length of the text of a chat or session, in tokens.
func (m *Model) Context() int { return m.e.Context() }

// ContextLimit returns the longest text that the model allows, in tokens. [Options].Context may be less.
func (m *Model) ContextLimit() int { return m.e.ContextLimit() }

// Tokenize returns the ids of a text. Special tokens in it are recognised if special is set, and are text otherwise.
func (m *Model) Tokenize(text string, special bool) ([]int32, error) {
	t, err := m.e.Tokenizer()
	if err != nil {
		return nil, err
	}
	return t.Encode(text, special), nil
}

// Detokenize returns the text of ids. Bytes that are not a whole character become U+FFFD.
func (m *Model) Detokenize(ids []int32) (string, error) {
	t, err := m.e.Tokenizer()
	if err != nil {
		return "", err
	}
	return t.Decode(ids), nil
}

// TokenBytes returns the bytes of a token in a text, often not whole characters. Control tokens have no bytes, but a
// [Model.TokenName].
func (m *Model) TokenBytes(id int32) ([]byte, error) {
	t, err := m.e.Tokenizer()
	if err != nil {
		return nil, err
	}
	return t.Bytes(id), nil
}

// TokenName returns the name of a control token, such as <|im_end|>; "" for others.
func (m *Model) TokenName(id int32) (string, error) {
	t, err := m.e.Tokenizer()
	if err != nil || !t.IsControl(id) {
		return "", err
	}
	return t.Text(id), nil
}

// Vocabulary returns the number of tokens of the model; all ids are less than it.
func (m *Model) Vocabulary() (int, error) {
	t, err := m.e.Tokenizer()
	if err != nil {
		return 0, err
	}
	return t.Size(), nil
}

// TextTokens returns the ids of a text to continue. Special tokens in it are recognised, and the token for the
// beginning of a text precedes it if the file requires it.
func (m *Model) TextTokens(text string) ([]int32, error) { return m.e.RawPrompt(text) }

// Check returns an error if an answer with these options would fail: values out of range, options that exclude each
// other, and schemas that are wrong or not supported. It does not ask a cloud.
func (m *Model) Check(options ...Option) error {
	_, err := m.CheckContext(context.Background(), options...)
	return err
}

// CheckContext is Check for options with a large schema, which takes time to compile. Compiling ends with the cause of
// ctx when ctx ends. It returns the paths of the schema's keywords that have no effect, at most 100: those that no
// draft of JSON schema defines, and unknown formats.
func (m *Model) CheckContext(ctx context.Context, options ...Option) (ignored []string, err error) {
	r := newRequest(options)
	if err := r.checkOptions(); err != nil {
		return nil, err
	}
	route := engine.Route{Settings: r.settings}
	route.Draft.Verify = r.route != nil && r.route.Verify
	return m.e.Check(ctx, route)
}

// TemplateValue is a value for the model's chat template beside messages and tools, such as that of [Thinking].
type TemplateValue struct {
	Name  string // such as "enable_thinking"; "strftime_now" is the function that gives templates the date
	Value any    // nil, a bool, an int, a string or a json.RawMessage
}

func templateValues(values []TemplateValue) []tokenizer.Value {
	all := make([]tokenizer.Value, len(values))
	for i, v := range values {
		all[i] = tokenizer.Value(v)
	}
	return all
}

// Thinking tells the template of a model such as Qwen3 whether the model is to think before it answers. Without it the
// template decides: that of Qwen3 lets the model think, and those of the small models of Qwen3.5 do not.
func Thinking(on bool) TemplateValue { return TemplateValue{Name: "enable_thinking", Value: on} }

// ChatTokens returns the ids of a chat up to the beginning of the model's turn, as the template of the file renders it.
// Tools are JSON texts, {"type": "function", "function": {"name": …, "parameters": {…}}}; without tools it is an
// ordinary chat. Models such as Qwen2.5 and Qwen3 write calls of tools between <tool_call> and </tool_call>. The error
// is [ErrChat] if the template refuses the chat.
func (m *Model) ChatTokens(turns []Message, tools [][]byte, values ...TemplateValue) ([]int32, error) {
	t, err := m.e.Tokenizer()
	if err != nil {
		return nil, err
	}
	return t.Chat(templateMessages(turns), tools, templateValues(values)...)
}

// CountTokens returns the number of tokens of a chat up to the beginning of the model's turn: those of
// [Model.ChatTokens].
func (m *Model) CountTokens(turns []Message, tools [][]byte, values ...TemplateValue) (int, error) {
	ids, err := m.ChatTokens(turns, tools, values...)
	return len(ids), err
}

// Thinks reports whether the model may think before it answers a prompt: its vocabulary has the marks <think> and
// </think>, and the prompt has not closed the thought. Without a prompt it reports whether there are such marks.
func (m *Model) Thinks(prompt []int32) (bool, error) {
	t, err := m.e.Tokenizer()
	return err == nil && t.Thoughts(prompt).May(), err
}

// Infill is a text with a gap to fill.
type Infill struct {
	Prefix, Suffix string // before the gap and after it; special tokens in them are text
	Repo, Name     string // of the repository and of the file; "" means unknown
	// Files are others of the repository, the most important one last. If the vocabulary has no marks for names, the
	// texts of Files precede the prefix.
	Files []struct{ Name, Text string }
	// Most is the maximum number of tokens of the prompt; 0: any number. Text that does not fit is left out: Files from
	// the first one on, then the beginning of the prefix and the end of the suffix, so that the prefix gets three
	// quarters.
	Most int
}

// InfillTokens returns the prompt with which a model fills a gap in a text: the tokens that [Session.GenerateTokens]
// yields for it belong in the gap. For an empty Infill it contains only the three marks. It fails for a model without
// such marks in its vocabulary.
func (m *Model) InfillTokens(f Infill) ([]int32, error) {
	t, err := m.e.Tokenizer()
	if err != nil {
		return nil, err
	}
	return t.Infill(tokenizer.Infill(f))
}

// DialOptions say how to check the certificate of a gateway, and how to log in. The zero value is for a gateway without
// an access token and with a certificate signed by an authority that this system trusts.
type DialOptions struct {
	Pin          string        // the certificate's fingerprint, 64 hexadecimal digits, as `pilotfish cloud` prints it
	Token        string        // access token
	ServerName   string        // name that the certificate must be for; "" means the host that is dialled
	TicketFolder string        // for data that make the next connection faster; must stay secret; "" means in memory
	Lazy         bool          // return at once, and connect in the background without an error
	Timeout      time.Duration // of one attempt to connect; 0 means 5 s

	Device    netproto.Device // this device, the same in all its connections; zero means a drawn one
	Attempted func(error)     // called after each attempt to connect, with nil or its error; must not block
}

// ConnectError is why a connection to a gateway failed.
type ConnectError = engine.ConnectError

// Dial connects to the gateway at addr, "host:port", as the cloud for texts of m. The error contains the cause: no such
// host, connection refused, another certificate than the pin's, a wrong access token, another tokenizer.
func (m *Model) Dial(ctx context.Context, addr string, o DialOptions) (*Gateway, error) {
	vocabulary, err := m.Vocabulary()
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	opt, err := o.engineOptions()
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	r, err := m.e.Dial(ctx, addr, opt)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, addConnectAdvice(err))
	}
	return &Gateway{r, vocabulary}, nil
}

func (o DialOptions) engineOptions() (engine.DialOptions, error) {
	e := engine.DialOptions{
		Secret: netproto.Secret(o.Token), ServerName: o.ServerName, TicketFolder: o.TicketFolder, Lazy: o.Lazy,
		ConnectTimeout: o.Timeout, Device: o.Device, Attempted: o.Attempted,
	}
	if o.Timeout < 0 {
		return e, fmt.Errorf("timeout: %v is negative", o.Timeout)
	}
	if o.Pin != "" {
		var err error
		if e.Pin, err = netproto.ParseDigest(o.Pin); err != nil {
			return e, fmt.Errorf("pin: %w", err)
		}
	}
	return e, nil
}

func addConnectAdvice(err error) error {
	if a, ok := errors.AsType[*net.AddrError](err); ok {
		return &rewordedError{a.Err + ": give host:port, such as gpu.example.org:4433", err}
	}
	c, ok := errors.AsType[*engine.ConnectError](err)
	if !ok {
		return err
	}
	const fingerprint = "which `pilotfish cloud` prints where the gateway runs"
	help := "is a gateway running there, and does its UDP port let this machine in?"
	switch engine.RemedyFor(c) {
	case engine.NewPin:
		help = "if the gateway has a new certificate, set DialOptions.Pin to its fingerprint, " + fingerprint
	case engine.GivePin:
		help = "set DialOptions.Pin to the fingerprint of its certificate, " + fingerprint
	case engine.RightHost:
		help = "is the name of the host right?"
	case engine.RightSecret:
		help = "set DialOptions.Token to the access token of the gateway"
	case engine.SameFamily:
		help = "open a small model of the same family as the gateway's"
	case engine.SameVersion:
		help = "use the same version of pilotfish here and there"
	case engine.ReadRefusal:
		return err
	}
	return &rewordedError{c.Err.Error() + " (" + help + ")", err}
}

// rewordedError is an error with another text.
type rewordedError struct {
	text string
	err  error
}

func (e *rewordedError) Error() string { return e.text }
func (e *rewordedError) Unwrap() error { return e.err }

// Gateway is a connection to a gateway: a [Cloud] for any number of texts at once.
type Gateway struct {
	r          *engine.Remote
	vocabulary int
}

// Close ends the connection.
func (g *Gateway) Close() error { return g.r.Close() }

// Model returns the name of the large model that the gateway reports; "" before the first connection.
func (g *Gateway) Model() string { return g.r.Model() }

// Connected reports whether there is a connection. If there is none, an attempt to make one is begun.
func (g *Gateway) Connected() bool { return g.r.Connected() }

// Audit returns how the large model can compare the small model's tokens with its own choices: "exact" or "none";
// "" before the first connection. See [Route].Audit.
func (g *Gateway) Audit() string { return g.r.Audit() }

// Choices returns the number of most probable tokens from which the large model can draw; 0 means all, or no connection
// yet. With a temperature, [Settings].TopK must not be larger.
func (g *Gateway) Choices() int { return g.r.Choices() }

// CannotVerify is why the large model cannot verify tokens with this sampling as a router of [NewRouter] says, which
// may be nil; nil if it can, and before the first connection.
func (g *Gateway) CannotVerify(s Sampling, by Router) error {
	judge := ""
	if p, ok := by.(policy); ok {
		judge = p.r.Judge()
	}
	return g.r.CannotVerify(terms.Sampling(s), judge)
}

// OtherTemplate reports whether the chat templates of the two models differ for ordinary chats; false before the first
// connection. Chats are written by the small model's template. If the templates differ, the large model reads a form of
// chat that it was not trained on, and may answer worse.
func (g *Gateway) OtherTemplate() bool { return g.r.OtherTemplate() }

// ServeOptions limit a model that answers questions of small models. The zero value works.
type ServeOptions struct {
	Tokens int // kept in memory for all texts together; 0 means as many as fit into half of the free memory
	Rows   int // max new tokens of one forward call; 0 means 128
	// File is a router file with a judge, for routers of [NewRouter] with the policy judge and the same file; "": none.
	File string
}

// Serve makes m the large model of this process: a [Cloud] for any number of texts of small models with the same
// tokenizer. Close it before m.
func (m *Model) Serve(o ServeOptions) (*Service, error) {
	vocabulary, err := m.Vocabulary()
	if err != nil {
		return nil, err
	}
	limits := engine.ServeOptions{Slots: o.Tokens, Rows: o.Rows}
	if o.File != "" {
		file, err := engine.ReadRouter(o.File)
		if err != nil {
			return nil, err
		}
		limits.Judge = file.Judge
	}
	s, err := m.e.Serve(limits)
	if err != nil {
		return nil, err
	}
	return &Service{s, vocabulary}, nil
}

// Service is a large model of this process.
type Service struct {
	s          *engine.Service
	vocabulary int
}

// Close ends the service. Questions in progress end with an error.
func (s *Service) Close() error {
	s.s.Close()
	return nil
}
