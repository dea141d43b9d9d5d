//! CUDA C++ in which what g++ does not know is a function of `cuda.hpp`.

use std::collections::HashSet;

/// A translated source.
pub struct Translated {
    pub text: String,
    /// The kernel's name.
    pub name: String,
    /// Alignment of its shared memory.
    pub alignment: String,
}

impl Translated {
    pub fn new(source: &str) -> Self {
        let lines = source.lines();
        let text: Vec<_> = lines.filter(|line| !line.starts_with("#include")).collect();
        let mut text = text.join("\n");
        let (_, rest) = text
            .split_once("extern \"C\" __global__")
            .expect("a kernel");
        let (_, rest) = rest.split_once(')').expect("launch bounds");
        let (name, _) = rest.split_once('(').expect("parameters");
        let name = name.trim().to_owned();

        let mut alignment = "16".to_owned();
        const SHARED: &str = "extern __shared__ __align__(";
        if let Some((before, rest)) = text.split_once(SHARED) {
            let (declared, rest) = rest.split_once(") char ").expect("an array of bytes");
            let (block, after) = rest.split_once("[];").expect("an array of no size");
            assert!(!after.contains(SHARED), "one block of shared memory");
            alignment = declared.to_owned();
            text = format!("{before}char* const {block} = cuda::shared_memory();{after}");
        }

        // Reads, `T const x = *pointer;`, except from variables of a thread: those named `pointer_store`, and their
        // elements.
        let mut own = HashSet::new();
        let mut lines = Vec::new();
        for line in text.lines() {
            let (to, from) = line.split_once(" = ").unwrap_or((line, ""));
            let name = to.split_whitespace().last().unwrap_or("");
            let array = from.strip_prefix("&(*").and_then(|of| of.split(')').next());
            if from.starts_with(&format!("&{name}_store;"))
                || array.is_some_and(|of| own.contains(of))
            {
                own.insert(name.to_owned());
            }
            let pointer = from.strip_prefix('*').and_then(|of| of.strip_suffix(';'));
            lines.push(
                match pointer.filter(|of| of.starts_with('v') && !own.contains(*of)) {
                    Some(pointer) if to.contains(" const v") => {
                        format!("{to} = cuda::load({pointer});")
                    }
                    _ => line.to_owned(),
                },
            );
        }
        let mut text = lines.join("\n");

        // An atomic load, and an atomic addition as PTX.
        let volatile = "volatile uint32_t const* tmp = reinterpret_cast<volatile uint32_t const*>(";
        text = text.replace(volatile, "auto const tmp = cuda::relaxed(");
        const ADD: &str =
            "asm volatile(\"atom.relaxed.add.u32 %0, [%1], %2;\" : \"=r\"(result) : \"l\"(";
        while let Some((before, rest)) = text.split_once(ADD) {
            let (at, rest) = rest.split_once("), \"r\"(").expect("an address");
            let (value, rest) = rest.split_once(')').expect("a value");
            let (_, after) = rest.split_once(");").expect("the end of the operands");
            text = format!("{before}cuda::atom_add(result, {at}, {value});{after}");
        }
        assert!(
            !text.contains("asm "),
            "PTX that is not translated:\n{text}"
        );
        Self {
            text,
            name,
            alignment,
        }
    }
}
