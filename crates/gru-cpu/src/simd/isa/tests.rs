use super::*;
use std::panic::catch_unwind;

fn here() -> String {
    format!("{:?}", Machine::here::<f32>().arch)
}

#[test]
fn a_forced_instruction_set_ends_with_its_run() {
    let before = here();
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let within = isa.run(here);
        assert_eq!(within, format!("{:?}", isa.arch().unwrap()));
        let inner = isa.run(|| {
            assert!(Isa::Scalar.run(here).contains("Scalar"));
            here()
        });
        assert_eq!(inner, within, "after a nested run");
        assert_eq!(here(), before);
        if cfg!(panic = "unwind") {
            assert!(catch_unwind(|| isa.run(|| panic!("within"))).is_err());
            assert_eq!(here(), before, "after a panic");
        }
    }
}

/// An instruction set that is not detected would be ignored by every test.
#[test]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn the_vectors_of_this_processor_are_available() {
    // The features of x86-64-v3 and x86-64-v4.
    let v3 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt");
    let v4 = v3
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    assert_eq!(Isa::V3.is_available(), v3);
    assert_eq!(Isa::V4.is_available(), v4);
    assert!(!Isa::Neon.is_available() && !Isa::Simd128.is_available());
}

#[test]
#[cfg(all(
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_feature = "simd128"
    ),
    not(miri)
))]
fn a_target_with_vectors_has_more_than_one() {
    let available = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    assert!(available.count() > 1, "only the scalar path is tested");
}

#[test]
fn the_widest_vectors_are_used() {
    let available = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    let lanes = available.map(|isa| isa.run(|| Machine::here::<f32>().lanes));
    assert_eq!(lanes.max(), Some(Machine::here::<f32>().lanes));
}
