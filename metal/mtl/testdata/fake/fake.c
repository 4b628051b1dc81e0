// The C side of a fake Objective-C runtime: the functions that metal/mtl looks up, each of which hands its arguments to
// one Go function and returns what that leaves in the call. What objects there are, and what their methods do and
// refuse, is written in Go. It needs no header and no library.
typedef unsigned long word;

// call is what Go sees of a call. The assembly below knows its layout, as does fakeCall in Go.
struct call {
	word function;  // which of the functions below
	word words[8];  // integer arguments in registers, from the receiver on
	word *stack;    // integer arguments behind those
	word *result;   // where a result goes that fits into no registers
	word value;     // result, if it is an integer
	double seconds; // result, if it is a double
};

#define EXPORT __attribute__((visibility("default")))

static void (*receiver)(struct call *);

EXPORT void fake_set_receiver(void (*r)(struct call *)) { receiver = r; }

__attribute__((used, visibility("hidden"))) void fake_receive(struct call *c) { receiver(c); }

static word receive(word function, word argument) {
	struct call c = {.function = function, .words = {argument}};
	receiver(&c);
	return c.value;
}

// class_getInstanceMethod gives a method that is a call itself: nothing but its types is asked for.
EXPORT word class_getInstanceMethod(word class, word selector) {
	struct call c = {.function = 10, .words = {class, selector}};
	receiver(&c);
	return c.value;
}

EXPORT word sel_registerName(const char *name) { return receive(2, (word)name); }
EXPORT word objc_getClass(const char *name) { return receive(3, (word)name); }
EXPORT word objc_autoreleasePoolPush(void) { return receive(4, 0); }
EXPORT void objc_autoreleasePoolPop(word token) { receive(5, token); }
EXPORT word MTLCreateSystemDefaultDevice(void) { return receive(6, 0); }
EXPORT word pthread_self(void) { return receive(7, 0); }
EXPORT word object_getClass(word object) { return receive(8, object); }
EXPORT word method_getTypeEncoding(word method) { return receive(9, method); }
EXPORT int getpagesize(void) { return 16384; }

// fake_null takes any message and does nothing: what is left is the cost of the call. It returns what passes for an
// object, and for the status of a command buffer that is completed.
EXPORT word fake_null(void) { return 4; }

// objc_msgSend must accept any number of arguments of any kind, so it is written in assembly: it fills a struct call on
// its stack. A double can only be a result.
#if defined(__x86_64__)
__asm__(
	".text\n"
	".globl objc_msgSend_stret\n"
	".type objc_msgSend_stret,@function\n"
	"objc_msgSend_stret:\n" // result, receiver, selector, arguments
	"	pushq %rbp\n"
	"	movq %rsp, %rbp\n"
	"	subq $112, %rsp\n"
	"	movq $1, 0(%rsp)\n"
	"	movq %rsi, 8(%rsp)\n"
	"	movq %rdx, 16(%rsp)\n"
	"	movq %rcx, 24(%rsp)\n"
	"	movq %r8, 32(%rsp)\n"
	"	movq %r9, 40(%rsp)\n"
	"	movq %rdi, 80(%rsp)\n"
	"	leaq 16(%rbp), %rax\n"
	"	movq %rax, 72(%rsp)\n"
	"	movq %rsp, %rdi\n"
	"	call fake_receive\n"
	"	movq 80(%rsp), %rax\n"
	"	leave\n"
	"	ret\n"
	".globl objc_msgSend\n"
	".type objc_msgSend,@function\n"
	"objc_msgSend:\n" // receiver, selector, arguments
	"	pushq %rbp\n"
	"	movq %rsp, %rbp\n"
	"	subq $112, %rsp\n"
	"	movq $0, 0(%rsp)\n"
	"	movq %rdi, 8(%rsp)\n"
	"	movq %rsi, 16(%rsp)\n"
	"	movq %rdx, 24(%rsp)\n"
	"	movq %rcx, 32(%rsp)\n"
	"	movq %r8, 40(%rsp)\n"
	"	movq %r9, 48(%rsp)\n"
	"	movq $0, 80(%rsp)\n"
	"	leaq 16(%rbp), %rax\n"
	"	movq %rax, 72(%rsp)\n"
	"	movq %rsp, %rdi\n"
	"	call fake_receive\n"
	"	movq 88(%rsp), %rax\n"
	"	movsd 96(%rsp), %xmm0\n"
	"	leave\n"
	"	ret\n");
#elif defined(__aarch64__)
__asm__(
	".text\n"
	".globl objc_msgSend\n"
	".type objc_msgSend,@function\n"
	"objc_msgSend:\n" // receiver, selector, arguments; x8 is where a large result goes
	"	stp x29, x30, [sp, #-128]!\n"
	"	mov x29, sp\n"
	"	add x9, sp, #16\n"
	"	str xzr, [x9]\n"
	"	stp x0, x1, [x9, #8]\n"
	"	stp x2, x3, [x9, #24]\n"
	"	stp x4, x5, [x9, #40]\n"
	"	stp x6, x7, [x9, #56]\n"
	"	add x10, sp, #128\n"
	"	str x10, [x9, #72]\n"
	"	str x8, [x9, #80]\n"
	"	mov x0, x9\n"
	"	bl fake_receive\n"
	"	ldr x0, [sp, #104]\n"
	"	ldr d0, [sp, #112]\n"
	"	ldp x29, x30, [sp], #128\n"
	"	ret\n");
#else
#error "the fake Objective-C runtime knows amd64 and arm64"
#endif
