"""Readers of what says where things are in images, COCO's, Pascal VOC's and YOLO's files, to one form."""
