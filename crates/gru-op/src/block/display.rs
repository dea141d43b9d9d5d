//! How a block is printed.

use super::GruBlock;
use burn::module::{Content, DisplaySettings, ModuleDisplay};

impl ModuleDisplay for GruBlock {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new()
            .with_new_line_after_attribute(false)
            .optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let config = self.config();
        let content = content
            .add("d_input", &self.d_input)
            .add("d_hidden", &self.d_hidden)
            .add("num_layers", &self.num_layers)
            .add("bidirectional", &self.bidirectional)
            .add("dropout", &self.dropout.prob)
            .add("bias", &config.bias)
            .add("batch_first", &self.batch_first)
            .add("reset", format!("{:?}", config.spec.reset).as_str())
            .add("update", format!("{:?}", config.spec.update).as_str());
        content.optional()
    }
}
