use super::*;

#[test]
fn slots_have_the_order_of_the_names() {
    let mut next = 0..;
    let inputs = Inputs::from_slots([(); 11].map(|()| next.next())).unwrap();
    let named: Vec<_> = inputs.named().map(|(name, &k)| (k, name)).collect();
    let expected: Vec<_> = (0..).zip(NAMES).collect();
    assert_eq!(named, expected);
    assert_eq!(inputs.sequence.starts, Some(10));
    assert_eq!(inputs.weights.w_hh, 3);
    let gradients = inputs.differentiable().map(Option::<&i32>::copied);
    assert_eq!(gradients.into_array(), [0, 1, 2, 3, 4, 5, 6].map(Some));
    assert_eq!(inputs.map(|k| 2 * k).iter().sum::<i32>(), 110);
}

#[test]
fn x_and_w_hh_are_required() {
    let slots = [Some(0); 11];
    let without = |place: usize| {
        let mut slots = slots;
        slots[place] = None;
        Inputs::from_slots(slots).err()
    };
    assert_eq!(without(0), Some(MissingInput("x")));
    assert_eq!(without(3), Some(MissingInput("w_hh")));
    assert_eq!(without(1), None);
}

#[test]
fn pairs_stay_together() {
    let a = PerInput::from_array([0, 1, 2, 3, 4, 5, 6]);
    let pairs = a.zip(a.map(|k| 10 * k));
    assert!(pairs.into_array().into_iter().all(|(a, b)| b == 10 * a));
    assert_eq!(pairs.named().nth(2), Some(("w_ih", (2, 20))));
}

#[test]
fn shapes_follow_the_layout() {
    let (n, t, i, h) = (2, 3, 5, 7);
    let sizes = Sizes { n, t, i, h };
    let [batch, time] = [Layout::BatchMajor, Layout::TimeMajor].map(|l| sizes.shapes(l));
    assert_eq!(*batch.sequence.x, [n, t, i]);
    assert_eq!(*time.sequence.x, [t, n, i]);
    assert_eq!(*time.sequence.step_mask.unwrap(), [t, n]);
    assert_eq!(*time.sequence.zoneout.unwrap(), [t, n, h]);
    assert_eq!(*batch.weights.b_hh.unwrap(), [3 * h]);
    assert_eq!(batch.weights.w_hh.elements(), 3 * h * h);
}
