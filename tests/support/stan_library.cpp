// The C functions that bridgestan.StanModel looks up in a compiled model, written on Stan's own headers.
//
// BridgeStan compiles such a library from its sources, which it has to download. Tests compile this one in their place,
// with the headers and the compiler `stanc` that the package httpstan brings. What is never called stands below as absent.

#include <stan/io/empty_var_context.hpp>
#include <stan/io/json/json_data.hpp>
#include <stan/math.hpp>
#include <stan/model/model_base.hpp>
#include <stan/services/util/create_rng.hpp>

#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

stan::model::model_base& new_model(stan::io::var_context& data, unsigned int seed, std::ostream* messages);

namespace {

struct Held {
  std::unique_ptr<stan::model::model_base> model;
  stan::rng_t rng = stan::services::util::create_rng(0, 1);
  std::string name, unconstrained, names[2][2];  // [with transformed parameters][with generated quantities]
  int num_unconstrained, num[2][2];
};

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const auto& word : words) all += (all.empty() ? "" : ",") + word;
  return all;
}

// Runs `work`; an exception becomes a message and the code -1.
int guarded(char** error, const std::function<void()>& work) {
  try {
    work();
    return 0;
  } catch (const std::exception& problem) {
    if (error) *error = strdup(problem.what());
    return -1;
  }
}

template <class T>
T density(const Held& held, bool propto, bool jacobian, Eigen::Matrix<T, Eigen::Dynamic, 1>& y) {
  const auto& model = *held.model;
  if (propto) return jacobian ? model.log_prob_propto_jacobian(y, &std::cerr) : model.log_prob_propto(y, &std::cerr);
  return jacobian ? model.log_prob_jacobian(y, &std::cerr) : model.log_prob(y, &std::cerr);
}

Eigen::VectorXd vector_of(const double* values, int size) { return Eigen::VectorXd::Map(values, size); }

void not_here() { throw std::runtime_error("this function is no part of the library that tests compile"); }

}  // namespace

extern "C" {

int bs_major_version = BRIDGESTAN_MAJOR, bs_minor_version = BRIDGESTAN_MINOR, bs_patch_version = BRIDGESTAN_PATCH;

void bs_free_error_msg(char* message) { free(message); }
int bs_set_print_callback(void*, char**) { return 0; }

Held* bs_model_construct(const char* data, unsigned int seed, char** error) {
  Held* made = nullptr;
  guarded(error, [&] {
    auto held = std::make_unique<Held>();
    if (*data) {
      std::istringstream text(data);
      stan::json::json_data context(text);
      held->model.reset(&new_model(context, seed, &std::cerr));
    } else {
      stan::io::empty_var_context context;
      held->model.reset(&new_model(context, seed, &std::cerr));
    }
    held->name = held->model->model_name();
    std::vector<std::string> names;
    held->model->unconstrained_param_names(names, false, false);
    held->unconstrained = joined(names);
    held->num_unconstrained = names.size();
    for (bool transformed : {false, true}) {
      for (bool generated : {false, true}) {
        names.clear();
        held->model->constrained_param_names(names, transformed, generated);
        held->names[transformed][generated] = joined(names);
        held->num[transformed][generated] = names.size();
      }
    }
    made = held.release();
  });
  return made;
}

void bs_model_destruct(Held* held) { delete held; }
const char* bs_name(const Held* held) { return held->name.c_str(); }
const char* bs_model_info(const Held*) { return "compiled by tests"; }
const char* bs_param_unc_names(const Held* held) { return held->unconstrained.c_str(); }
int bs_param_unc_num(const Held* held) { return held->num_unconstrained; }

const char* bs_param_names(const Held* held, bool transformed, bool generated) {
  return held->names[transformed][generated].c_str();
}

int bs_param_num(const Held* held, bool transformed, bool generated) { return held->num[transformed][generated]; }

int bs_param_constrain(Held* held, bool transformed, bool generated, const double* y, double* theta, void*,
                       char** error) {
  return guarded(error, [&] {
    Eigen::VectorXd at = vector_of(y, held->num_unconstrained), values;
    held->model->write_array(held->rng, at, values, transformed, generated, &std::cerr);
    Eigen::VectorXd::Map(theta, values.size()) = values;
  });
}

int bs_param_unconstrain(Held* held, const double* theta, double* y, char** error) {
  return guarded(error, [&] {
    Eigen::VectorXd values = vector_of(theta, held->num[false][false]), free;
    held->model->unconstrain_array(values, free, &std::cerr);
    Eigen::VectorXd::Map(y, free.size()) = free;
  });
}

int bs_log_density(const Held* held, bool propto, bool jacobian, const double* y, double* value, char** error) {
  return guarded(error, [&] {
    Eigen::VectorXd at = vector_of(y, held->num_unconstrained);
    *value = density<double>(*held, propto, jacobian, at);
  });
}

int bs_log_density_gradient(const Held* held, bool propto, bool jacobian, const double* y, double* value,
                            double* gradient, char** error) {
  return guarded(error, [&] {
    Eigen::VectorXd at = vector_of(y, held->num_unconstrained), slope;
    const auto log_density = [&](auto& x) {
      return density<std::decay_t<decltype(x[0])>>(*held, propto, jacobian, x);
    };
    stan::math::gradient(log_density, at, *value, slope);
    Eigen::VectorXd::Map(gradient, slope.size()) = slope;
  });
}

int bs_param_unconstrain_json(void*, const char*, double*, char** error) { return guarded(error, not_here); }
int bs_param_initialize(void*, const char*, void*, double, int, bool, double*, char** error) {
  return guarded(error, not_here);
}
int bs_log_density_hessian(void*, bool, bool, const double*, double*, double*, double*, char** error) {
  return guarded(error, not_here);
}
int bs_log_density_hessian_vector_product(void*, bool, bool, const double*, const double*, double*, double*,
                                          char** error) {
  return guarded(error, not_here);
}
}
