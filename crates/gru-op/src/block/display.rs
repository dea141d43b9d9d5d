//! What a block prints of itself.

use super::GruBlock;
use burn::module::{Content, DisplaySettings, ModuleDisplay};

impl ModuleDisplay for GruBlock {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new()
            .with_new_line_after_attribute(false)
            .optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let bias = self.layers.iter().any(|layer| layer.b_ih.is_some());
        let content = content
            .add("d_input", &self.d_input)
            .add("d_hidden", &self.d_hidden)
            .add("num_layers", &self.num_layers)
            .add("bidirectional", &self.bidirectional)
            .add("dropout", &self.dropout.prob)
            .add("bias", &bias)
            .add("batch_first", &self.batch_first);
        match self.layers.first() {
            Some(layer) => content
                .add("reset", format!("{:?}", layer.spec.reset).as_str())
                .add("update", format!("{:?}", layer.spec.update).as_str()),
            None => content,
        }
        .optional()
    }
}
