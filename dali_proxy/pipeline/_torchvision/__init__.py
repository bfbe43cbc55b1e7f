"""The torchvision-like interface: transforms of images, built from the operators of dynamic mode."""
