// oneDNN's GRU primitives as a peer of the benchmark. benches/peer.rs describes the protocol, benches/problem.rs the
// problem file.
//
// Requires oneDNN 3.x with the OpenMP CPU runtime. The primitive is lbr_gru: the reset gate acts after the product, as in
// PyTorch. Weights are stored in the plain layout ldigo. Inference packs them (format `any`) once, outside the timed
// part, and frees the plain ones. Training reorders them in each call for the forward and the backward primitive, zeroes
// the weight gradients (the primitive accumulates), and reorders the gradients back to ldigo. Nothing is reordered if a
// primitive chooses ldigo. There is no loss: the gradient of y is given.
//
// oneDNN has neither lengths nor starts. It computes such rows densely. With lengths the gradient of the padding is zero,
// so all numbers are comparable: the final states are the outputs of the last valid steps. With starts no number is.
#include <oneapi/dnnl/dnnl.hpp>
#include <omp.h>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>
using namespace dnnl;
using dims = memory::dims;
using tag = memory::format_tag;
using args_t = std::unordered_map<int, memory>;

static float *data(const memory &m) { return (float *)m.get_data_handle(); }
static void convert(stream &s, reorder &r, memory &from, memory &to) {
    if (from.get() != to.get()) r.execute(s, from, to);
}
static void zero(memory &m) { std::memset(data(m), 0, m.get_desc().get_size()); }
// oneDNN's gates u r o are PyTorch's z r n. Biases: u and r contain b_ih + b_hh, o contains b_ih of n, and the fourth row
// contains b_hh of n.
static const int GATE[3] = {1, 0, 2};

// One layer, unidirectional or bidirectional: forward, and backward in training.
struct Layer {
    bool training;
    int N, T, I, H, D;
    memory x, h0, wl, wi, b, y, hn, ws, fwl, fwi;               // fw*: in the forward primitive's format
    memory dx, dh0, dwl, dwi, db, dy, dhn, bwl, bwi, pwl, pwi;  // bw*: in the backward primitive's format; p*: plain
    lbr_gru_forward fwd;
    lbr_gru_backward bwd;
    reorder pack_fl, pack_fi, pack_bl, pack_bi, plain_l, plain_i;
    args_t fa, ba;

    Layer(engine &e, int N, int T, int I, int H, int D, bool training)
        : training(training), N(N), T(T), I(I), H(H), D(D) {
        auto md = [](dims d, tag t) { return memory::desc(d, memory::data_type::f32, t); };
        auto mem = [&](const memory::desc &d) { memory m(d, e); zero(m); return m; };
        auto as = [&](const memory &m, const memory::desc &d) { return m.get_desc() == d ? m : mem(d); };
        auto x_md = md({T, N, I}, tag::tnc), y_md = md({T, N, D * H}, tag::tnc);
        auto h_md = md({1, D, N, H}, tag::ldnc), b_md = md({1, D, 4, H}, tag::ldgo);
        dims wld = {1, D, I, 3, H}, wid = {1, D, H, 3, H};
        auto dir = D == 2 ? rnn_direction::bidirectional_concat : rnn_direction::unidirectional_left2right;
        lbr_gru_forward::primitive_desc fpd(e, training ? prop_kind::forward_training : prop_kind::forward_inference,
                dir, x_md, h_md, md(wld, tag::any), md(wid, tag::any), b_md, y_md, h_md);
        x = mem(x_md); h0 = mem(h_md); b = mem(b_md); y = mem(y_md); hn = mem(h_md);
        wl = mem(md(wld, tag::ldigo)); wi = mem(md(wid, tag::ldigo));
        fwl = as(wl, fpd.weights_layer_desc()); fwi = as(wi, fpd.weights_iter_desc());
        fwd = lbr_gru_forward(fpd);
        pack_fl = reorder(wl, fwl); pack_fi = reorder(wi, fwi);
        fa = {{DNNL_ARG_SRC_LAYER, x}, {DNNL_ARG_SRC_ITER, h0}, {DNNL_ARG_WEIGHTS_LAYER, fwl},
                {DNNL_ARG_WEIGHTS_ITER, fwi}, {DNNL_ARG_BIAS, b}, {DNNL_ARG_DST_LAYER, y}, {DNNL_ARG_DST_ITER, hn}};
        if (!training) return;
        ws = mem(fpd.workspace_desc());
        fa.insert({DNNL_ARG_WORKSPACE, ws});
        lbr_gru_backward::primitive_desc bpd(e, prop_kind::backward, dir, x_md, h_md, md(wld, tag::any),
                md(wid, tag::any), b_md, y_md, h_md, x_md, h_md, md(wld, tag::any), md(wid, tag::any), b_md, y_md, h_md,
                fpd);
        dx = mem(x_md); dh0 = mem(h_md); db = mem(b_md); dy = mem(y_md); dhn = mem(h_md);
        bwl = as(wl, bpd.weights_layer_desc()); bwi = as(wi, bpd.weights_iter_desc());
        dwl = mem(bpd.diff_weights_layer_desc()); dwi = mem(bpd.diff_weights_iter_desc());
        pwl = as(dwl, wl.get_desc()); pwi = as(dwi, wi.get_desc());
        pack_bl = reorder(wl, bwl); pack_bi = reorder(wi, bwi); plain_l = reorder(dwl, pwl); plain_i = reorder(dwi, pwi);
        bwd = lbr_gru_backward(bpd);
        ba = {{DNNL_ARG_SRC_LAYER, x}, {DNNL_ARG_SRC_ITER, h0}, {DNNL_ARG_WEIGHTS_LAYER, bwl},
                {DNNL_ARG_WEIGHTS_ITER, bwi}, {DNNL_ARG_BIAS, b}, {DNNL_ARG_DST_LAYER, y}, {DNNL_ARG_DST_ITER, hn},
                {DNNL_ARG_WORKSPACE, ws}, {DNNL_ARG_DIFF_SRC_LAYER, dx}, {DNNL_ARG_DIFF_SRC_ITER, dh0},
                {DNNL_ARG_DIFF_WEIGHTS_LAYER, dwl}, {DNNL_ARG_DIFF_WEIGHTS_ITER, dwi}, {DNNL_ARG_DIFF_BIAS, db},
                {DNNL_ARG_DIFF_DST_LAYER, dy}, {DNNL_ARG_DIFF_DST_ITER, dhn}};
    }
    void pack(stream &s) { convert(s, pack_fl, wl, fwl); convert(s, pack_fi, wi, fwi); }
    void forward(stream &s) {
        if (training) pack(s);
        fwd.execute(s, fa);
    }
    void backward(stream &s) {
        convert(s, pack_bl, wl, bwl); convert(s, pack_bi, wi, bwi);
        zero(dwl); zero(dwi); zero(db);
        bwd.execute(s, ba);
        convert(s, plain_l, dwl, pwl); convert(s, plain_i, dwi, pwi);
    }
    // Visits every weight (or its gradient) of a direction with its place in PyTorch's layout.
    static void weights(memory &m, int d, int K, int H, const std::function<void(size_t, float &)> &f) {
        for (int k = 0; k < K; k++)
            for (int g = 0; g < 3; g++)
                for (int o = 0; o < H; o++)
                    f((size_t)(GATE[g] * H + o) * K + k, data(m)[((size_t)(d * K + k) * 3 + g) * H + o]);
    }
};

struct Net {
    std::vector<std::unique_ptr<Layer>> layers;
    int N, T, I, H, L, D, kind;
    std::vector<int> marks;
    bool training;

    Net(engine &e, stream &s, std::istream &file, bool training) : training(training) {
        int head[8];
        file.read((char *)head, sizeof head);
        N = head[0]; T = head[1]; I = head[2]; H = head[3]; L = head[4]; D = head[5]; kind = head[6];
        if (kind >= 2 && D == 2) throw std::runtime_error("lengths with one direction only");
        marks.resize(head[7]);
        file.read((char *)marks.data(), 4ul * head[7]);
        auto read = [&](size_t n) { std::vector<float> v(n); file.read((char *)v.data(), 4 * n); return v; };
        auto x = read((size_t)N * T * I), h0 = read((size_t)L * D * N * H), r = read((size_t)N * T * D * H);
        for (int l = 0; l < L; l++) {
            layers.emplace_back(new Layer(e, N, T, l ? H * D : I, H, D, training));
            auto &layer = *layers[l];
            std::memcpy(data(layer.h0), &h0[(size_t)l * D * N * H], 4ul * D * N * H);
            for (int d = 0; d < D; d++) {
                auto w_ih = read(3ul * H * layer.I), w_hh = read(3ul * H * H), b_ih = read(3 * H), b_hh = read(3 * H);
                Layer::weights(layer.wl, d, layer.I, H, [&](size_t k, float &w) { w = w_ih[k]; });
                Layer::weights(layer.wi, d, H, H, [&](size_t k, float &w) { w = w_hh[k]; });
                for (int g = 0; g < 3; g++)
                    for (int o = 0; o < H; o++) {
                        int k = GATE[g] * H + o;
                        data(layer.b)[(d * 4 + g) * H + o] = b_ih[k] + (g == 2 ? 0.f : b_hh[k]);
                        if (g == 2) data(layer.b)[(d * 4 + 3) * H + o] = b_hh[k];
                    }
            }
            if (l) {  // neighbouring layers share the memory between them
                auto &a = *layers[l - 1];
                layer.x = a.y;
                layer.fa[DNNL_ARG_SRC_LAYER] = a.y;
                if (training) {
                    layer.ba[DNNL_ARG_SRC_LAYER] = a.y;
                    a.dy = layer.dx;
                    a.ba[DNNL_ARG_DIFF_DST_LAYER] = layer.dx;
                }
            }
            if (!training) {
                layer.pack(s);
                s.wait();
                layer.wl = layer.wi = memory();
            }
        }
        if (!file) throw std::runtime_error("the problem file is too short");
        turn(x, data(layers[0]->x), N, T, I);
        if (training) turn(r, data(layers[L - 1]->dy), N, T, D * H);
        s.wait();
    }
    // [A,B,C] to [B,A,C]
    static void turn(const std::vector<float> &from, float *to, int A, int B, int C) {
        for (int a = 0; a < A; a++)
            for (int b = 0; b < B; b++)
                std::memcpy(to + ((size_t)b * A + a) * C, &from[((size_t)a * B + b) * C], 4ul * C);
    }
    void call(stream &s) {
        for (auto &layer : layers) layer->forward(s);
        if (training)
            for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) (*layer)->backward(s);
        s.wait();
    }
    std::string outputs(const std::string &path) {
        if (kind == 1) return "\tdense, without starts";
        std::ofstream file(path, std::ios::binary);
        std::string names;
        auto write = [&](const std::string &name, const float *p, size_t n) {
            names += (names.empty() ? "" : " ") + name;
            file.write((const char *)p, 4 * n);
        };
        auto batch_major = [&](const std::string &name, memory &m, int C) {
            std::vector<float> from(data(m), data(m) + (size_t)T * N * C), to(from.size());
            turn(from, to.data(), T, N, C);
            write(name, to.data(), to.size());
        };
        auto states = [&](const std::string &name, memory Layer::*m) {
            std::vector<float> all;
            for (auto &layer : layers) all.insert(all.end(), data((*layer).*m), data((*layer).*m) + D * N * H);
            write(name, all.data(), all.size());
        };
        batch_major("y", layers[L - 1]->y, D * H);
        if (kind >= 2)  // replaces the states after the padding; each call writes them anew
            for (auto &layer : layers)
                for (int n = 0; n < N; n++)
                    std::memcpy(data(layer->hn) + (size_t)n * H, data(layer->y) + ((size_t)(marks[n] - 1) * N + n) * H, 4ul * H);
        states("h_n", &Layer::hn);
        if (training) {
            batch_major("d_x", layers[0]->dx, I);
            states("d_h0", &Layer::dh0);
            for (int k = 0; k < L * D; k++) {
                auto &layer = *layers[k / D];
                int d = k % D;
                std::string suffix = "." + std::to_string(k);
                std::vector<float> w_ih(3ul * H * layer.I), w_hh(3ul * H * H), b_ih(3 * H), b_hh(3 * H);
                Layer::weights(layer.pwl, d, layer.I, H, [&](size_t i, float &w) { w_ih[i] = w; });
                Layer::weights(layer.pwi, d, H, H, [&](size_t i, float &w) { w_hh[i] = w; });
                for (int g = 0; g < 3; g++)
                    for (int o = 0; o < H; o++) {
                        b_ih[GATE[g] * H + o] = data(layer.db)[(d * 4 + g) * H + o];
                        b_hh[GATE[g] * H + o] = data(layer.db)[(d * 4 + (g == 2 ? 3 : g)) * H + o];
                    }
                write("d_w_ih" + suffix, w_ih.data(), w_ih.size());
                write("d_w_hh" + suffix, w_hh.data(), w_hh.size());
                write("d_b_ih" + suffix, b_ih.data(), b_ih.size());
                write("d_b_hh" + suffix, b_hh.data(), b_hh.size());
            }
        }
        return names + (kind == 0 ? "\t" : "\tdense and padded");
    }
};

int main() {
    engine e(engine::kind::cpu, 0);
    stream s(e);
    const auto *v = dnnl_version();
    std::cout << "ok\t" << v->major << "." << v->minor << "." << v->patch << std::endl;
    std::unique_ptr<Net> net;
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        std::string request, problem, mode, out;
        std::getline(words, request, '\t');
        std::getline(words, problem, '\t');
        if (request == "prepare") {
            std::getline(words, mode, '\t');
            std::getline(words, out, '\t');
            try {
                net.reset();
                std::ifstream file(problem, std::ios::binary);
                net.reset(new Net(e, s, file, mode == "fwd_bwd"));
                net->call(s);
                std::cout << "ok\t" << net->outputs(out) << std::endl;
            } catch (const std::exception &error) {
                std::cout << "no\t" << error.what() << std::endl;
            }
        } else {
            std::getline(words, mode, '\t');
            for (int calls = std::stoi(problem); calls > 0; calls--) net->call(s);
            auto begin = std::chrono::steady_clock::now();
            for (int calls = std::stoi(mode); calls > 0; calls--) net->call(s);
            auto time = std::chrono::steady_clock::now() - begin;
            std::cout << "ok\t" << std::chrono::nanoseconds(time).count() << std::endl;
        }
    }
}
