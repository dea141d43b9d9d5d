//! Writes `.onnx` files with one GRU, to test readers. Field numbers are the ones of `onnx.proto`.

/// An input, an output or a constant.
#[derive(Debug, Clone)]
pub struct Value {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Whether it contains int32 instead of float32.
    pub is_int: bool,
    /// The numbers of a float32 constant.
    pub data: Vec<f64>,
}

/// The value of an attribute.
#[derive(Debug, Clone)]
pub enum Attribute {
    /// A number.
    Float(f32),
    /// An integer.
    Int(i64),
    /// A text.
    Text(String),
    /// Numbers.
    Floats(Vec<f32>),
    /// Texts.
    Texts(Vec<String>),
}

/// A model with one node.
#[derive(Debug, Clone, Default)]
pub struct GruModel {
    /// The attributes of the node.
    pub attributes: Vec<(String, Attribute)>,
    /// The inputs of the node. An absent input has an empty name.
    pub node_inputs: Vec<String>,
    /// The outputs of the node. An absent output has an empty name.
    pub node_outputs: Vec<String>,
    /// The inputs of the model.
    pub inputs: Vec<Value>,
    /// The outputs of the model.
    pub outputs: Vec<Value>,
    /// The constants.
    pub constants: Vec<Value>,
    /// Whether constants are `Constant` nodes instead of initializers.
    pub constant_nodes: bool,
}

impl GruModel {
    /// The content of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut graph = Message::default();
        for constant in &self.constants {
            if self.constant_nodes {
                let value = Message::default()
                    .text(1, "value")
                    .message(5, tensor(constant))
                    .number(20, 4);
                let node = Message::default()
                    .text(2, &constant.name)
                    .text(4, "Constant")
                    .message(5, value);
                graph = graph.message(1, node);
            } else {
                graph = graph.message(5, tensor(constant));
            }
        }
        let mut node = Message::default();
        for name in &self.node_inputs {
            node = node.text(1, name);
        }
        for name in &self.node_outputs {
            node = node.text(2, name);
        }
        node = node.text(3, "the GRU").text(4, "GRU");
        for (name, value) in &self.attributes {
            node = node.message(5, attribute(name, value));
        }
        graph = graph.message(1, node).text(2, "graph");
        for value in &self.inputs {
            graph = graph.message(11, described(value));
        }
        for value in &self.outputs {
            graph = graph.message(12, described(value));
        }
        let opset = Message::default().text(1, "").number(2, 17);
        let model = Message::default().number(1, 8).message(7, graph);
        model.message(8, opset).0
    }
}

/// The fields of a protocol-buffer message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn float(mut self, field: u64, value: f32) -> Self {
        self.varint(field << 3 | 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: Self) -> Self {
        self.bytes(field, &message.0)
    }
}

fn tensor(value: &Value) -> Message {
    let mut tensor = Message::default();
    for &size in &value.shape {
        tensor = tensor.number(1, size as u64);
    }
    let data: Vec<u8> = value
        .data
        .iter()
        .flat_map(|&x| (x as f32).to_le_bytes())
        .collect();
    tensor.number(2, 1).text(8, &value.name).bytes(9, &data)
}

fn attribute(name: &str, value: &Attribute) -> Message {
    let attribute = Message::default().text(1, name);
    match value {
        Attribute::Float(value) => attribute.float(2, *value).number(20, 1),
        Attribute::Int(value) => attribute.number(3, *value as u64).number(20, 2),
        Attribute::Text(value) => attribute.text(4, value).number(20, 3),
        Attribute::Floats(values) => {
            let attribute = values.iter().fold(attribute, |a, &value| a.float(7, value));
            attribute.number(20, 6)
        }
        Attribute::Texts(values) => {
            let attribute = values.iter().fold(attribute, |a, value| a.text(9, value));
            attribute.number(20, 8)
        }
    }
}

fn described(value: &Value) -> Message {
    let mut shape = Message::default();
    for &size in &value.shape {
        shape = shape.message(1, Message::default().number(1, size as u64));
    }
    let element = if value.is_int { 6 } else { 1 };
    let tensor = Message::default().number(1, element).message(2, shape);
    let r#type = Message::default().message(1, tensor);
    Message::default().text(1, &value.name).message(2, r#type)
}
