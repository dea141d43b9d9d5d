//! Any sizes with slices of any length. A mismatch is an error, even if a product of sizes overflows.
#![no_main]

use arbitrary::{Result, Unstructured};
use gru_cpu::{Gradients, Gru, Inputs, Sequence, Weights, spec::Sizes};
use gru_fuzz::{draw, panics::announced, passes::REFUSALS};
use libfuzzer_sys::fuzz_target;

/// The maximum length of a slice.
const LONGEST: usize = 64;

struct Case {
    gru: Gru,
    /// Which options are present.
    there: [bool; 13],
    /// Lengths of x, h0, w_ih, w_hh, b_ih, b_hh, mask, valid, zoneout, states, saved.
    lengths: [usize; 11],
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
    let (gru, there): (_, [bool; 13]) = (draw::gru(u, sizes)?, u.arbitrary()?);
    let Sizes { n, t, i, h } = sizes;
    let of = |factors: &[usize]| factors.iter().fold(1usize, |p, f| p.wrapping_mul(*f));
    let features = if there[1] { i } else { of(&[3, h]) };
    let mut lengths = [
        of(&[n, t, features]),
        of(&[n, h]),
        of(&[i, 3, h]),
        of(&[h, 3, h]),
        of(&[3, h]),
        of(&[3, h]),
        of(&[n, h]),
        of(&[n, t]),
        of(&[n, t, h]),
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
        lengths,
    })
}

fn run(case: &Case) {
    let slices = case.lengths.map(|length| vec![0.25f32; length]);
    let [
        x,
        h0,
        w_ih,
        w_hh,
        b_ih,
        b_hh,
        mask,
        valid,
        take,
        states,
        saved,
    ] = slices.each_ref().map(Vec::as_slice);
    let there = case.there;
    let inputs = Inputs {
        sequence: Sequence {
            h0: there[0].then_some(h0),
            recurrent_mask: there[4].then_some(mask),
            step_mask: there[5].then_some(valid),
            zoneout: there[6].then_some(take),
            ..Sequence::new(x)
        },
        weights: Weights {
            b_ih: there[2].then_some(b_ih),
            b_hh: there[3].then_some(b_hh),
            ..Weights::new(there[1].then_some(w_ih), w_hh)
        },
    };
    let (mut new_states, mut new_saved) = (states.to_vec(), saved.to_vec());
    case.gru
        .forward(&inputs, &mut new_states, there[7].then_some(&mut new_saved));

    let mut gradients = [x, h0, w_ih, w_hh, b_ih, b_hh].map(<[f32]>::to_vec);
    let [x, h0, w_ih, w_hh, b_ih, b_hh] = gradients.each_mut().map(Vec::as_mut_slice);
    let to = Gradients {
        x: there[8].then_some(x),
        h0: there[9].then_some(h0),
        w_ih: there[10].then_some(w_ih),
        w_hh: there[11].then_some(w_hh),
        b_ih: there[12].then_some(b_ih),
        b_hh: there[12].then_some(b_hh),
    };
    case.gru
        .backward(&inputs, states, there[7].then_some(saved), states, to);
}
