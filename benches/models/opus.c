/* The GRUs of Opus, through its own functions: their weights, and a step. `opus.py` compiles it with Opus' sources. */
#include <string.h>

#include "bbwenet_data.h"
#include "dred_rdovae_dec_data.h"
#include "dred_rdovae_enc_data.h"
#include "fargan_data.h"
#include "lace_data.h"
#include "nnet.h"
#include "nolace_data.h"
#include "pitchdnn.h"
#include "plc_data.h"

extern const WeightArray bbwenetlayers_arrays[], rdovaedec_arrays[], rdovaeenc_arrays[], fargan_arrays[],
    lacelayers_arrays[], nolacelayers_arrays[], pitchdnn_arrays[], plcmodel_arrays[];

static BBWENETLayers bbwe;
static RDOVAEDec dec;
static RDOVAEEnc enc;
static FARGAN fargan;
static LACELayers lace;
static NOLACELayers nolace;
static PitchDNN pitch;
static PLCModel plc;

#define GRU(net, name) {#name, &net.name##_input, &net.name##_recurrent}
static struct {
    const char *name;
    const LinearLayer *input, *recurrent;
} grus[] = {
    GRU(fargan, sig_net_gru1), GRU(fargan, sig_net_gru2), GRU(fargan, sig_net_gru3), GRU(plc, plc_gru1),
    GRU(plc, plc_gru2), GRU(pitch, gru_1), GRU(enc, enc_gru1), GRU(enc, enc_gru2), GRU(enc, enc_gru3),
    GRU(enc, enc_gru4), GRU(enc, enc_gru5), GRU(dec, dec_gru1), GRU(dec, dec_gru2), GRU(dec, dec_gru3),
    GRU(dec, dec_gru4), GRU(dec, dec_gru5), GRU(lace, lace_fnet_gru), GRU(nolace, nolace_fnet_gru),
    GRU(bbwe, bbwenet_fnet_gru),
};
enum { COUNT = sizeof grus / sizeof *grus };

/* The number of GRUs, or 0 if Opus rejects its weights. */
int opus_grus(void) {
    int failed = init_bbwenetlayers(&bbwe, bbwenetlayers_arrays) || init_rdovaedec(&dec, rdovaedec_arrays)
        || init_rdovaeenc(&enc, rdovaeenc_arrays) || init_fargan(&fargan, fargan_arrays)
        || init_lacelayers(&lace, lacelayers_arrays) || init_nolacelayers(&nolace, nolacelayers_arrays)
        || init_pitchdnn(&pitch, pitchdnn_arrays) || init_plcmodel(&plc, plcmodel_arrays);
    return failed ? 0 : COUNT;
}

const char *opus_name(int gru) { return grus[gru].name; }
int opus_inputs(int gru) { return grus[gru].input->nb_inputs; }
int opus_units(int gru) { return grus[gru].recurrent->nb_inputs; }

/* A matrix [inputs, outputs], gates in the order z, r, n. Integers are in blocks of eight outputs and four inputs. */
static void dense(const LinearLayer *layer, float *to) {
    int inputs = layer->nb_inputs, outputs = layer->nb_outputs;
    const int *index = layer->weights_idx;
    const opus_int8 *q = layer->weights;
    /* Opus computes with float weights if a layer has both. */
    if (layer->float_weights) {
        memcpy(to, layer->float_weights, sizeof(float) * inputs * outputs);
        return;
    }
    memset(to, 0, sizeof(float) * inputs * outputs);
    for (int out = 0; out < outputs; out += 8) {
        int blocks = index ? *index++ : inputs / 4;
        for (int block = 0; block < blocks; block++, q += 32) {
            int in = index ? *index++ : 4 * block;
            for (int k = 0; k < 32; k++)
                to[(in + k % 4) * outputs + out + k / 4] = q[k] * layer->scale[out + k / 4] * 127;
        }
    }
}

/* Both matrices, and both biases one after the other. Whether Opus computes both products with 8 bits. */
int opus_weights(int gru, float *w_ih, float *w_hh, float *biases) {
    const LinearLayer *layers[] = {grus[gru].input, grus[gru].recurrent};
    int outputs = layers[0]->nb_outputs;
    dense(layers[0], w_ih);
    dense(layers[1], w_hh);
    memset(biases, 0, sizeof(float) * 2 * outputs);
    for (int k = 0; k < 2; k++)
        if (layers[k]->bias)
            memcpy(biases + k * outputs, layers[k]->bias, sizeof(float) * outputs);
    return !layers[0]->float_weights && !layers[1]->float_weights;
}

void opus_step(int gru, float *state, const float *x) {
    /* 4: AVX2, if Opus was compiled for several instruction sets. */
    compute_generic_gru(grus[gru].input, grus[gru].recurrent, state, x, 4);
}

/* A step with the float code, from the matrices of `opus_weights`. */
void opus_float_step(const float *w_ih, const float *w_hh, const float *biases, int inputs, int units, float *state,
                     const float *x) {
    LinearLayer input = {.bias = biases, .float_weights = w_ih, .nb_inputs = inputs, .nb_outputs = 3 * units};
    LinearLayer recurrent = {
        .bias = biases + 3 * units, .float_weights = w_hh, .nb_inputs = units, .nb_outputs = 3 * units};
    compute_generic_gru(&input, &recurrent, state, x, 4);
}
