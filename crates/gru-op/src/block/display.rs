//! How a block is printed.

use super::{GruBlock, GruLayer};
use burn::module::{Content, DisplaySettings, ModuleDisplay};
use gru_spec::Direction;

/// An option of a layer.
type Text = fn(&GruLayer) -> String;

impl ModuleDisplay for GruBlock {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new()
            .with_new_line_after_attribute(false)
            .optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let mut content = content
            .add("d_input", &self.d_input)
            .add("d_hidden", &self.d_hidden)
            .add("num_layers", &self.num_layers)
            .add("bidirectional", &self.bidirectional)
            .add("dropout", &self.dropout.prob)
            .add("bias", &self.config().bias)
            .add("batch_first", &self.batch_first);
        let of_layers = |text: Text| {
            let mut all: Vec<_> = self.layers.iter().map(text).collect();
            if all.iter().all(|text| *text == all[0]) {
                all.truncate(1);
            }
            all.join(", ")
        };
        let is_usual = |(k, layer): (usize, &GruLayer)| {
            (layer.direction == Direction::Reverse) == (self.bidirectional && k % 2 == 1)
        };
        let usual_directions = self.layers.iter().enumerate().all(is_usual);
        // Each with the value that is not shown.
        let options: [(&str, Text, &str); 7] = [
            ("reset", |layer| format!("{:?}", layer.spec.reset), ""),
            ("update", |layer| format!("{:?}", layer.spec.update), ""),
            ("activations", activations, "[Sigmoid, Sigmoid, Tanh]"),
            ("clip_gates", |layer| clip(layer.spec.clip_gates), "none"),
            ("clip_state", |layer| clip(layer.spec.clip_state), "none"),
            (
                "recurrent_dropout",
                |layer| layer.recurrent_dropout.to_string(),
                "0",
            ),
            ("zoneout", |layer| layer.zoneout.to_string(), "0"),
        ];
        for (name, text, usual) in options {
            let value = of_layers(text);
            if value != usual {
                content = content.add(name, value.as_str());
            }
        }
        if !usual_directions {
            let directions = of_layers(|layer| format!("{:?}", layer.direction));
            content = content.add("direction", directions.as_str());
        }
        content.optional()
    }
}

/// An infinite clip has no effect, and JSON has none.
fn clip(clip: Option<f64>) -> String {
    let clip = clip.filter(|clip| clip.is_finite());
    clip.map_or("none".into(), |clip| clip.to_string())
}

fn activations(layer: &GruLayer) -> String {
    format!("{:?}", layer.spec.activations.into_array())
}
