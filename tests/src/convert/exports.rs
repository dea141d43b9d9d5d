//! What a system cannot express is an error of its exporter.

use super::*;

/// What some systems cannot express, options of such a block, and the systems that can.
const EXPORTS: &str = r#"
several layers | d_input=5 num_layers=2 | pytorch onednn
both directions | bidirectional=true | pytorch burn keras mps_graph onednn onnx
a layer in reverse only | reverse=true | keras mps_graph onednn onnx
Reset::BeforeMatmul | spec.reset=BeforeMatmul | burn keras tensorflow mps_graph onednn onnx
Reset::AfterMatmul | spec.reset=AfterMatmul | pytorch burn keras mps_graph onednn cudnn onnx
Update::Takes | spec.update=Takes | mps_graph
Activations { reset: Tanh, update: Sigmoid, candidate: Tanh } | spec.activations.reset=Tanh | mps_graph
Activations { reset: Sigmoid, update: Sigmoid, candidate: Elu { alpha: 0.5 } } | spec.activations.candidate={"Elu":{"alpha":0.5}} | burn onnx
clip_gates 2 | spec.clip_gates=2.0 | onnx
clip_state 1.5 | spec.clip_state=1.5 | burn
zoneout | zoneout=0.1 |
"#;

pub fn trials() -> impl Iterator<Item = Trial> {
    rows(EXPORTS).map(|[what, options, able]| {
        Trial::test(format!("convert/error/export/{what}"), move || {
            Ok(exported(what, options, able)?)
        })
    })
}

/// A row of [`EXPORTS`]: each exporter returns an error that names what its system lacks, unless the system is able.
fn exported(what: &str, options: &str, able: &str) -> Result<(), String> {
    for (system, name) in SYSTEMS {
        let mut config = with_options(config(), options);
        // The cell has only this form.
        if system == "tensorflow" && !what.starts_with("Reset") {
            config.spec.reset = Reset::BeforeMatmul;
        }
        let got = export(system, &block(config), "").err().map(text);
        let is_able = able.split(' ').any(|able| able == system);
        let expected = (!is_able).then(|| format!("{name} cannot express {what}"));
        if got != expected {
            return Err(format!("{system}: expected {expected:?}, got {got:?}"));
        }
    }
    Ok(())
}
