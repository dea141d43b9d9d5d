use super::*;
use safetensors::tensor::TensorView;

#[test]
fn arrays_of_other_types() {
    let read = |dtype, bytes: &[u8]| {
        let two = TensorView::new(dtype, vec![2], bytes).expect("two numbers");
        let bytes = safetensors::serialize([("weights", two)], None).expect("a file");
        StateDict::from_safetensors_bytes("model.safetensors", bytes)
    };
    let dict = read(Dtype::BOOL, &[1, 2]).and_then(|dict| dict.shape::<1>("weights"));
    let message = dict.expect_err("2 is no boolean");
    let expected = "weights: expected booleans, bytes 0 and 1, got 2";
    assert_eq!(message.to_string(), expected);
    let left_out = read(Dtype::F8_E4M3, &[0, 0]).expect("a file");
    let two = TensorData::zeros::<f32, _>([2]);
    let mut dict = left_out.clone();
    dict.insert("weights", two.clone());
    let replaced = dict.expect_only("", &["weights"], "weights");
    replaced.expect("an array with the name of one that is left out replaces it");
    let mut dict = StateDict::new();
    dict.insert("weights", two.clone());
    dict.extend(left_out.clone());
    assert!(dict.get("weights").is_none(), "the later array replaces it");
    let mut dict = left_out.clone();
    dict.insert("other", two);
    let message = dict.renamed(|_| "one".into()).expect_err("two names");
    let expected = "one: expected one tensor of this name, got two";
    assert_eq!(message.to_string(), expected);
    let dict = left_out.renamed(|key| format!("a.{key}"));
    let message = dict.and_then(|dict| dict.shape::<1>("a.weights"));
    let message = message.expect_err("Burn has no such type").to_string();
    assert_eq!(
        message,
        "a.weights: expected numbers of a type of Burn, got F8_E4M3"
    );
    let dict = read(Dtype::U16, &[1, 0, 0, 1]).expect("Burn has such a type");
    let expected = TensorData::new(vec![1u16, 256], [2]);
    assert_eq!(dict.get("weights"), Some(&expected));
}
