//! Any sizes with slices of any length. A mismatch is an error, even if a product of sizes overflows.
#![cfg_attr(fuzzing, no_main)]

use arbitrary::{Result, Unstructured};
use gru_cpu::{Gradients, Gru, Inputs, spec::Sizes};
use gru_fuzz::{draw, fuzz_target, panics::announced, passes::REFUSALS};

/// The maximum length of a slice.
const LONGEST: usize = 64;

struct Case {
    gru: Gru,
    /// Which inputs are present.
    there: [bool; 11],
    /// Which gradients are requested.
    wanted: [bool; 7],
    /// Whether gates are saved.
    saves: bool,
    /// Lengths of all inputs in the order of their slots, of states and of saved.
    lengths: [usize; 13],
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(case) = draw(&mut Unstructured::new(bytes)) {
        announced(REFUSALS, || run(&case));
    }
});

fn draw(u: &mut Unstructured<'_>) -> Result<Case> {
    let mut size = || {
        if u.arbitrary()? {
            return u.int_in_range(0..=4);
        }
        // Around the powers of two at which products overflow.
        let power = 1usize << u.int_in_range(0..=63)?;
        Ok(power.wrapping_add_signed(u.int_in_range(-3..=3)?))
    };
    let sizes = Sizes {
        n: size()?,
        t: size()?,
        i: size()?,
        h: size()?,
    };
    let (gru, there) = (draw::gru(u, sizes)?, draw::there(u)?);
    let Sizes { n, t, i, h } = sizes;
    let of = |factors: &[usize]| factors.iter().fold(1usize, |p, f| p.wrapping_mul(*f));
    let features = if there[draw::W_IH] { i } else { of(&[3, h]) };
    let mut lengths = [
        of(&[n, t, features]),
        of(&[n, h]),
        of(&[i, 3, h]),
        of(&[h, 3, h]),
        of(&[3, h]),
        of(&[3, h]),
        of(&[n, h]),
        of(&[n, h]),
        of(&[n, t]),
        of(&[n, t, h]),
        of(&[n, t]),
        of(&[n, t, h]),
        of(&[n, t, h, gru.spec.saved_per_unit()]),
    ]
    .map(|length| length.min(LONGEST));
    if u.ratio(1, 4)? {
        *u.choose_iter(lengths.iter_mut())? = u.int_in_range(0..=LONGEST)?;
    }
    Ok(Case {
        gru,
        there,
        wanted: u.arbitrary()?,
        saves: u.arbitrary()?,
        lengths,
    })
}

fn run(case: &Case) {
    let tensors = case.lengths.map(|length| vec![0.25f32; length]);
    let [all @ .., states, saved] = tensors.each_ref().map(Vec::as_slice);
    let mut slices = all.into_iter();
    let slots = case.there.map(|there| slices.next().filter(|_| there));
    let inputs = Inputs::from_slots(slots).expect("x and w_hh are present");
    let (mut new_states, mut new_saved) = (states.to_vec(), saved.to_vec());
    let new_saved = case.saves.then_some(&mut *new_saved);
    case.gru.forward(&inputs, &mut new_states, new_saved);

    let mut gradients = all.map(<[f32]>::to_vec);
    let mut gradients = gradients.iter_mut();
    let to = case.wanted.map(|wanted| {
        let gradient = gradients.next().filter(|_| wanted);
        gradient.map(Vec::as_mut_slice)
    });
    let saved = case.saves.then_some(saved);
    let to = Gradients::from_array(to);
    case.gru.backward(&inputs, states, saved, states, to);
}
