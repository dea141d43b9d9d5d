//! Runs every importer of gru-convert on arrays from a file.

use burn::tensor::Device;
use gru_convert::{
    ConvertError, StateDict, cudnn, keras, mps_graph, onednn, onnx, pytorch, tensorflow,
};
use gru_op::{GruBlock, GruBlockConfig, Update, mps_graph::GruDescriptor};
use std::collections::BTreeSet;

/// Tries all importers with every prefix of the keys. An exporter must write what its importer read.
pub fn import(dict: &StateDict) {
    let prefix_of = |key: &str| {
        let end = key.rfind(['.', '/']).map_or(0, |at| at + 1);
        key[..end].to_owned()
    };
    let prefixes: BTreeSet<String> = dict.keys().map(prefix_of).collect();
    for prefix in prefixes {
        let prefix = prefix.as_str();
        through(dict, prefix, pytorch::config, pytorch::import, |block| {
            let exported = pytorch::export(block, prefix)?;
            // A block does not record that it came from a cell.
            match dict.get(&format!("{prefix}weight_hh")) {
                Some(_) => exported.renamed(|key| key.trim_end_matches("_l0").to_owned()),
                None => Ok(exported),
            }
        });
        through(dict, prefix, keras::config, keras::import, |block| {
            let exported = keras::export(block, prefix)?;
            // Arrays are exported by name, including arrays that were imported by number.
            let number = |key: &str| match key.rsplit_once('/') {
                Some((place, "kernel")) => format!("{place}/0"),
                Some((place, "recurrent_kernel")) => format!("{place}/1"),
                Some((place, "bias")) => format!("{place}/2"),
                _ => key.to_owned(),
            };
            if dict.keys().any(|key| key == format!("{prefix}0")) {
                exported.renamed(number)
            } else {
                Ok(exported)
            }
        });
        through(
            dict,
            prefix,
            tensorflow::config,
            tensorflow::import,
            |block| tensorflow::export(block, prefix),
        );
        through(dict, prefix, onednn::config, onednn::import, |block| {
            onednn::export(block, prefix)
        });
        through(dict, prefix, cudnn::config, cudnn::import, |block| {
            cudnn::export(block, prefix)
        });
        for (reset_after, bidirectional) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            // Without resetAfter it is ignored, and export does not write it.
            if !reset_after && dict.get(&format!("{prefix}secondaryBias")).is_some() {
                continue;
            }
            let mut descriptor = GruDescriptor::new(Update::Keeps);
            descriptor.reset_after = reset_after;
            descriptor.bidirectional = bidirectional;
            through(
                dict,
                prefix,
                |dict, prefix| mps_graph::config(dict, prefix, &descriptor),
                |dict, prefix, config, device| {
                    mps_graph::import(dict, prefix, &descriptor, config, device)
                },
                |block| mps_graph::export(block, prefix).map(|(dict, _)| dict),
            );
        }
        for direction in ["forward", "reverse", "bidirectional"] {
            let attributes = onnx::Attributes {
                direction: direction.into(),
                ..Default::default()
            };
            through(
                dict,
                prefix,
                |dict, prefix| onnx::config(dict, prefix, &attributes),
                onnx::import,
                |block| onnx::export(block, prefix).map(|(dict, _)| dict),
            );
        }
    }
}

/// Whatever `import` reads with the inferred `config`, `export` writes.
fn through(
    dict: &StateDict,
    prefix: &str,
    config: impl Fn(&StateDict, &str) -> Result<GruBlockConfig, ConvertError>,
    import: impl Fn(&StateDict, &str, &GruBlockConfig, &Device) -> Result<GruBlock, ConvertError>,
    export: impl Fn(&GruBlock) -> Result<StateDict, ConvertError>,
) {
    if let Ok(config) = config(dict, prefix)
        && let Ok(block) = import(dict, prefix, &config, &Device::flex())
    {
        same(dict, prefix, export(&block));
    }
}

/// The exported arrays have the names and shapes of the imported arrays.
fn same(dict: &StateDict, prefix: &str, exported: Result<StateDict, ConvertError>) {
    let exported = exported.expect("the exporter accepts what the importer read");
    for key in dict.keys().filter(|key| key.starts_with(prefix)) {
        let shape = |dict: &StateDict| dict.get(key).map(|data| data.shape().to_vec());
        assert_eq!(shape(&exported), shape(dict), "{key}");
    }
}
